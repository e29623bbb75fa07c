// What devices can send and receive, where each pair of ranks has one way (topology/graph/routes.h).
//
// A device may have links that no way between two devices of its host uses: those to a NIC, beside faster ones to the
// other devices. What passes these passes the host's NICs, too, since it comes from a rank elsewhere or goes there. So
// the devices of a host get no more at a time than the links carry on which ways between them end, and the NICs. This
// holds where every two devices of the host have a way on it: others send to each other over the network.
#pragma once

#include <vector>

#include "compose/bounds/bound.h"
#include "compose/bounds/divided_bound.h"

namespace sccl::compose {

struct WayRates {
  std::vector<HostRates> hosts;  // all devices of a host together, infinite where ways are not looked at
  std::vector<HostRates> ranks;
};

// `links`: those that may carry something; `nics`: by host, what passes between it and others. Hosts of more than 72
// devices are not looked at, nor those of which two have no way on the host, nor those that count their switches in
// another order than their kind does. O(links + square of the devices of each kind).
WayRates rates_of_ways(const topology::Cluster& cluster, const std::vector<topology::Link>& links,
                       const std::vector<HostRates>& nics);

// One bound of hosts and one of ranks, where there is one.
std::vector<Bound> bounds_of_ways(const topology::Cluster& cluster, const WayRates& rates, Collective collective,
                                  Rank root, double bytes);

}  // namespace sccl::compose
