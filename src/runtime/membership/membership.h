// The outcome of init: the peers, their shared memory, and the abilities that all ranks have in common.
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
#include "runtime/bootstrap/unique_id.h"
#include "runtime/call/requests.h"
#include "runtime/choice/dispatcher.h"
#include "runtime/choice/tuning/learned.h"
#include "runtime/choice/tuning/tuning_file.h"
#include "runtime/control/control_plane.h"
#include "runtime/control/hosts/host_agent.h"
#include "runtime/membership/hosts/host_groups.h"
#include "runtime/membership/tuner_choices.h"
#include "runtime/settings/settings.h"
#include "runtime/transport/net/net_membership.h"
#include "runtime/transport/p2p/device_membership.h"
#include "runtime/transport/shm/memory_layout.h"
#include "runtime/transport/shm/peer.h"
#include "topology/topology.h"

namespace sccl::runtime {

struct CommunicatorIdentity {
  std::string name;          // may be empty
  std::uint64_t number = 0;  // the same at all ranks, another one at every communicator

  std::string text() const;   // "1f2e3d4c"
  std::string title() const;  // for messages: "tensor parallel" (1f2e3d4c)
};

// This process, as the other processes of the host know it.
struct OwnProcess {
  std::shared_ptr<host::OwnLife> life;  // as the others watch it
  bool heavy_fences = false;            // reach every rank (host::let_others_fence)
};

// The links that a communicator plans for.
struct PlannedLinks {
  // Those that rank 0's SCCL_TOPO allows, or those between hosts; none: the host's own, every rank to every other.
  std::optional<topology::Topology> topology;
  bool named = false;  // the topology was named or is the devices'; else it is that of hosts
  int place = -1;      // of this rank in the machine that SCCL_TOPO names
};

// The content of rank 0's cache, the same on all ranks.
struct MeasuredChoices {
  TuningTable table;
  LearnedDispatcher learned;  // with SCCL_DISPATCH=learned
  TuningPlace place;          // only at rank 0, which keeps the measured times
};

// What is known of choices before the first call.
struct KnownChoices {
  MeasuredChoices measured;
  TunerChoices wishes;                  // of rank 0's tuner plugin, the same on all ranks
  std::shared_ptr<TunerPlugin> plugin;  // only at rank 0
};

// None of it where all ranks are on one host.
struct BetweenHosts {
  std::optional<NetMembership> net;
  std::unique_ptr<HostAgent> agent;  // tells other hosts about this host's ranks
};

struct Membership {
  CommunicatorIdentity identity;
  std::int64_t timeout_ms = -1;  // CommunicatorOptions::timeout_ms
  Rank rank = 0;
  int ranks = 1;
  Settings settings;  // rank 0's
  ControlPlane control;
  std::vector<Peer> peers;  // by rank, this rank included
  MemoryLayout layout{1, 0};
  OwnProcess process;
  Reach reach = Reach::none;  // how ranks get at one another's buffers, the same on all ranks
  PlannedLinks links;
  KnownChoices tuning;
  std::optional<DeviceMembership> on_device;  // on all ranks or on none
  HostGroups hosts;
  BetweenHosts between_hosts;

  Membership() = default;
  Membership(Membership&&) = default;
  Membership& operator=(Membership&&) = default;

  // Every rank can read and write every other rank's buffers.
  bool reaches_buffers() const { return reach != Reach::none; }
  // The tuner plugin's wish for a call; null: no wish.
  const CallWish* wish_of(const CollectiveRequest& request) const {
    return tuning.wishes.empty()
               ? nullptr
               : tuning.wishes.find(request.collective, SizeClass::of(request.count * size_bytes(request.type)));
  }
  int ranks_on_this_host() const;
  const Peer& peer(Rank of) const { return peers[static_cast<std::size_t>(of)]; }
};

struct InitRequest {
  std::vector<UniqueId> ids;
  Rank rank = 0;
  int ranks = 1;
  int place = -1;                       // see CommunicatorOptions
  std::function<void()> watch;          // see Bootstrap
  std::optional<gpu::Device> device{};  // of this rank
  int most_blocks = 1;                  // of its kernels
  std::string net_name;                 // ncclConfig_t.netName, may be empty
};

// Tells the ranks that have left the bootstrap, and wait for this one in calls, that it failed. They throw an error of
// the same code, as for a failure in a call. Needs no memory.
void tell_those_ready(const Membership& membership, const std::exception& error);

// Meets the other ranks (see Communicator::connect).
Membership init_membership(const InitRequest& request, Deadline deadline, const std::atomic<bool>& abort);

}  // namespace sccl::runtime
