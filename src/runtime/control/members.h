// The members of a communicator, as the control plane knows them. A member's state is memory that this process can read
// in place. For a rank of this host, it is the rank's own memory. For a rank of another host, it is a mirror in this
// host's memory, which an agent keeps up to date. Values in a mirror have the same meaning, except for points of time:
// hosts share no clock, so an agent passes on durations.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/types.h"
#include "platform/host/process_life.h"
#include "runtime/control/state/agent_bell.h"
#include "runtime/control/state/shared_state.h"

namespace sccl::runtime {

// Where a rank is, as seen from another rank: in the same process, in another process of the same host, or on another
// host.
enum class Locality : std::uint8_t { process, host, remote };

struct Member {
  Locality locality = Locality::host;
  int process = 0;                  // process id on the member's host
  std::uint64_t process_token = 0;  // from host::OwnLife
  std::string host;
  std::shared_ptr<const host::PeerLife> life;  // only for other processes of this host, else null
  SharedState* state = nullptr;
  const Mirror* mirror = nullptr;  // contains the state of a rank of another host; null for ranks of this host
  std::shared_ptr<void> memory;    // contains the state
};

// All members from the view of one rank. The parts of the control plane refer to this.
struct Members {
  Members(Rank viewer, std::vector<Member> members)
      : rank(viewer), all(std::move(members)), own_state(all.empty() ? nullptr : of(viewer).state) {}

  Rank rank;  // the viewing rank
  std::vector<Member> all;
  SharedState* own_state;
  std::shared_ptr<const AgentBell> agent_bell;  // null if all ranks run on one host
  std::chrono::milliseconds host_timeout{0};    // over hosts: one that is silent for so long is lost
  std::vector<Rank> parents_ranks;              // by rank, for errors: the numbers in the parent; empty: no parent

  // Makes the agent pass this rank's stores to other hosts at once.
  void wake_agent() const {
    if (agent_bell) agent_bell->ring();
  }
  int ranks() const { return static_cast<int>(all.size()); }
  const Member& of(Rank other) const { return all[static_cast<std::size_t>(other)]; }
  SharedState& state(Rank other) const { return *of(other).state; }
  SharedState& own() const { return *own_state; }
  // Of the first rank of this host.
  SharedState& first_on_host() const {
    return *std::find_if(all.begin(), all.end(), [](const Member& one) {
              return one.locality != Locality::remote;
            })->state;
  }

  // For messages: "rank 1, 2"; of ranks on several hosts "rank 1, 2 on node1 and rank 3 on node2".
  std::string named(const std::vector<Rank>& ranks) const;
  std::string named(Rank rank) const { return named(std::vector<Rank>{rank}); }
};

}  // namespace sccl::runtime
