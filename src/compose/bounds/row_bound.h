// Lower bounds from cuts between neighbouring switches: every place to cut a line of switches in two, every pair of
// places to cut a ring, and every branch of a tree.
//
// Hosts with their NICs, and the switches between them, stand in one row, in the order of a search in depth that visits
// what hangs on a switch before it follows a ring. In this row both parts of a cut line, one of the two arcs of a cut
// ring, and a branch of a tree, are runs of neighbours. Each run is a cut; whatever the network is, all links that
// cross it are counted, so each bound holds. Other networks have their best cuts in network_bound.h, where the
// collective has a maximum flow that finds them: AllToAll has none.
#pragma once

#include <vector>

#include "compose/bounds/bound.h"

namespace sccl::compose {

// `links`: those that may carry something. The best bound of all runs with at least two hosts inside and outside, where
// there is one. Nothing if all devices have the same leaf switch. O(nodes x links), where nodes are hosts and switches;
// in great networks runs begin at every k-th node only, so that it takes some ten milliseconds.
std::vector<Bound> bounds_of_rows(const topology::Topology& topology, const topology::Cluster& cluster,
                                  const std::vector<topology::Link>& links, Collective collective, Rank root,
                                  double bytes);

}  // namespace sccl::compose
