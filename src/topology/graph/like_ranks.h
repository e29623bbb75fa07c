// Ranks that nothing tells apart but the number of their host.
#pragma once

#include <vector>

#include "topology/topology.h"

namespace sccl::topology {

// By rank: the first rank that is alike, itself if there is none before it. Alike are the ranks at one position of two
// hosts that may be swapped: the swap maps links to links of as many lanes. Shared sets are not looked at. Takes time
// almost linear in the links, and finds fewer ranks alike than automorphisms do.
std::vector<Rank> first_alike(const Topology& topology);

}  // namespace sccl::topology
