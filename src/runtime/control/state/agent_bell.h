// Wakes the active agent of this host (hosts/host_agent.h), so that the agent reads the states at once. Any rank's
// agent may be the active one, so every rank of the host has the descriptors of all agents.
#pragma once

#include <memory>
#include <vector>

#include "base/fd.h"
#include "runtime/control/state/mirror.h"

namespace sccl::runtime {

struct AgentBell {
  MirrorTable mirrors;
  std::vector<std::shared_ptr<const FileDescriptor>> wakes;  // eventfds, by rank; null for ranks of other hosts

  // A descriptor for `wakes`. Throws system_error.
  static FileDescriptor make_wake();

  void ring() const { ring(mirrors.leader().load(std::memory_order_relaxed)); }
  void ring(Rank rank) const;

  // For the agent of `rank`, a rank of this host: can be read once it was rung, until drain().
  int descriptor(Rank rank) const { return wakes[static_cast<std::size_t>(rank)]->get(); }
  void drain(Rank rank) const;
};

}  // namespace sccl::runtime
