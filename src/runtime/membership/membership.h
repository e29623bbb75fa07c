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
#include "base/fd.h"
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
  int process = 0;                    // id, for reading its memory
  bool shares_address_space = false;  // a thread of this process
  FileDescriptor process_handle;      // pidfd or pipe; poll reports it when the process has ended
  std::string host;

  // Not seen of ranks of this process, and of none where the system tells no deaths.
  bool has_ended() const;
  // Throws the error that the rank failed with, if it has.
  void check_fault() const;
};

struct Membership {
  std::string name;  // of the communicator, may be empty
  Rank rank = 0;
  int ranks = 1;
  Settings settings;  // rank 0's
  MemoryLayout layout{1, 0};
  std::vector<Peer> peers;      // by rank, this rank included
  FileDescriptor life_line;     // where there are no pidfds: closed by this process's end
  bool heavy_fences = false;    // reach every rank (host::let_others_fence)
  bool direct = false;          // every rank can read and write every other rank's buffers
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
};

// Meets the other ranks (see Communicator::connect).
Membership init_membership(const InitRequest& request, Deadline deadline, const std::atomic<bool>& abort);

}  // namespace sccl::runtime
