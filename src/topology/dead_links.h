// Links that carry nothing, as of an interface that is down, and switches that have no links.
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

// Switches without links go, and those behind them move up. A file may number switches as it likes, and whatever visits
// all nodes took seconds if there were 60000.
void leave_out_lone_switches(Topology& topology);

}  // namespace sccl::topology
