// The outcome of init: who the peers are, their shared memory, and what this set of ranks can do together.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "platform/host/process_life.h"
#include "platform/host/segment.h"
#include "runtime/bootstrap/unique_id.h"
#include "runtime/choice/dispatcher.h"
#include "runtime/choice/tuning/learned.h"
#include "runtime/choice/tuning/tuning_file.h"
#include "runtime/settings/settings.h"
#include "runtime/transport/p2p/device_membership.h"
#include "runtime/transport/shm/memory_layout.h"
#include "topology/topology.h"

namespace sccl::runtime {

struct Peer {
  std::shared_ptr<host::Segment> segment;
  SharedState* state = nullptr;
  int process = 0;                             // id, for reading its memory
  std::uint64_t process_token = 0;             // of host::OwnLife
  bool shares_address_space = false;           // a thread of this process
  std::shared_ptr<const host::PeerLife> life;  // none of this process's own ranks
  std::string host;

  bool has_ended() const { return life && life->look() != host::PeerLife::State::runs; }
  // Throws the error that the rank failed with, if it has.
  void check_fault() const;
};

struct Membership {
  std::string name;            // of the communicator, may be empty
  std::uint64_t identity = 0;  // the same at all ranks, another one at every communicator
  Rank rank = 0;
  int ranks = 1;
  Settings settings;  // rank 0's
  MemoryLayout layout{1, 0};
  std::vector<Peer> peers;              // by rank, this rank included
  std::shared_ptr<host::OwnLife> life;  // of this process, as the others watch it
  bool heavy_fences = false;            // reach every rank (host::let_others_fence)
  bool direct = false;                  // every rank can read and write every other rank's buffers
  bool prefers_system = false;  // which costs less than slots though it goes through the system (copy_comparison.h)
  // The links that rank 0's SCCL_TOPO allows; none: the host's own, every rank to every other.
  std::optional<topology::Topology> topology;
  int place = -1;  // of this rank in the machine that SCCL_TOPO names
  // Measured choices that rank 0 found in the cache, the same on all ranks.
  TuningTable tuning;
  LearnedDispatcher learned;                  // with SCCL_DISPATCH=learned, likewise
  TuningPlace tuning_place;                   // rank 0's, which keeps what is measured
  std::optional<DeviceMembership> on_device;  // all ranks have one, or none has

  Membership() = default;
  Membership(Membership&&) = default;
  Membership& operator=(Membership&&) = default;

  std::string identity_text() const;  // "1f2e3d4c"
  std::string title() const;          // for messages: "tensor parallel" (1f2e3d4c)
  Reach reach() const;
  // What this rank has stored is visible to all ranks, and who sleeps looks for it.
  void wake_all() const;
  SharedState& own_state() { return *peers[static_cast<std::size_t>(rank)].state; }
};

// Throws: that rank, which `presence` shows or whose process has ended, left while this one waits for it.
[[noreturn]] void fail_departed(const Membership& membership, Rank rank, Presence presence,
                                const std::string& waiting_text);

struct InitRequest {
  UniqueId id;
  Rank rank = 0;
  int ranks = 1;
  int place = -1;                       // see CommunicatorOptions
  std::function<void()> watch;          // see Bootstrap
  std::optional<gpu::Device> device{};  // of this rank
  int most_blocks = 1;                  // of its kernels
};

// Meets the other ranks (see Communicator::connect).
Membership init_membership(const InitRequest& request, Deadline deadline, const std::atomic<bool>& abort);

}  // namespace sccl::runtime
