// Which ranks reach each other outside their hosts. Mostly all that have a NIC do. Where NICs lie on rails, or in
// planes, that no switch joins, there are several networks, and ranks of other networks reach each other only over the
// links of a host.
#pragma once

#include <vector>

#include "topology/symmetry/cluster.h"

namespace sccl::topology {

// Cluster::network_of. Numbers are in the order of ranks. Linear in the links for each network.
std::vector<int> networks_of(const Topology& topology, const Cluster& cluster);

}  // namespace sccl::topology
