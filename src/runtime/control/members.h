// The members of a communicator as its control plane knows them. A member's state is memory that this process can read
// in place: the rank's own for ranks of this host. For a rank of another host it is a mirror in this host's memory,
// which an agent keeps up to date; then values mean what they mean here, except for points of time: hosts share no
// clock, so an agent passes on durations.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/types.h"
#include "platform/host/process_life.h"
#include "runtime/control/state/mirror.h"
#include "runtime/control/state/shared_state.h"

namespace sccl::runtime {

// Where a rank is, as seen from another one: in the same process, in another process of the same host, elsewhere.
enum class Locality : std::uint8_t { process, host, remote };

struct Member {
  Locality locality = Locality::host;
  int process = 0;                  // its id, on its host
  std::uint64_t process_token = 0;  // of host::OwnLife
  std::string host;
  std::shared_ptr<const host::PeerLife> life;  // none of ranks of this process, and of other hosts
  SharedState* state = nullptr;
  const Mirror* mirror = nullptr;  // in which the state of a rank of another host lies
  std::shared_ptr<void> memory;    // in which the state lies
};

// Of one rank's view; the parts of the control plane refer to it.
struct Members {
  Members(Rank viewer, std::vector<Member> members)
      : rank(viewer), all(std::move(members)), own_state(all.empty() ? nullptr : of(viewer).state) {}

  Rank rank;  // whose view this is
  std::vector<Member> all;
  SharedState* own_state;
  std::shared_ptr<const AgentBell> agent_bell;  // null where all ranks run on one host

  // What this rank has stored is looked at on other hosts, too, and at once.
  void wake_agent() const {
    if (agent_bell) agent_bell->ring();
  }
  int ranks() const { return static_cast<int>(all.size()); }
  const Member& of(Rank other) const { return all[static_cast<std::size_t>(other)]; }
  SharedState& state(Rank other) const { return *of(other).state; }
  SharedState& own() const { return *own_state; }
};

}  // namespace sccl::runtime
