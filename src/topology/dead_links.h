// Links that carry nothing: of an interface that is down, or whose rate nobody knows.
#pragma once

#include <set>
#include <utility>

#include "topology/topology.h"

namespace sccl::topology {

// Leaves out links of no rate, of class net also those back, and of switches that lead nowhere then all links, so that
// no device takes such a switch for the network. Nodes keep their numbers. Returns how many links of no rate there
// were; 0 where no link has a rate, since then only distances count.
int leave_out_dead_links(Topology& topology);

// Leaves out these links, in the direction given, and all links of switches that lead nowhere then.
void leave_out(Topology& topology, const std::set<std::pair<Node, Node>>& edges);

}  // namespace sccl::topology
