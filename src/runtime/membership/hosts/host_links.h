// Starts the agents that join the hosts of a communicator (control/hosts/host_agent.h). Every rank listens, the ranks
// exchange their addresses, and init continues when every host has reached every other host.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/control/hosts/host_agent.h"
#include "runtime/membership/hosts/host_groups.h"

namespace sccl::runtime {

// Of that many hosts an agent has connections to 126 others (control/hosts/grid.h).
inline constexpr int kMostHosts = 4096;

struct AgentRequest {
  Rank rank = 0;
  HostGroups groups;
  // By rank; hosts and addresses are filled in here.
  std::vector<AgentSetup::Member> members;
  AgentBell bell;
};

struct StartedAgent {
  std::unique_ptr<HostAgent> agent;
  // The interfaces of this host that lead to the other hosts: "eth0,eth1"
  std::string interfaces;
  std::chrono::milliseconds timeout{};  // of a host that is silent
};

// Throws invalid_usage, the same at all ranks, if there are more than kMostHosts.
void check_host_count(const HostGroups& groups);

// Collective. Throws the same error at all ranks when two hosts do not reach each other; it names them and the
// addresses that were tried.
StartedAgent start_agent(AgentRequest request, Bootstrap& bootstrap, Deadline deadline, const std::atomic<bool>& abort);

}  // namespace sccl::runtime
