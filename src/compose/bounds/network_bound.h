// Lower bounds from cuts through the network: sets of hosts, and switches on the side that makes the bound best. On a
// line of hosts, for example, the link in its middle.
#pragma once

#include <vector>

#include "compose/bounds/bound.h"

namespace sccl::compose {

// For each direction the bound of one set of hosts, where there is one. Hosts are nodes here, within which data moves
// at once. AllGather and ReduceScatter: the worst of all sets, found by Newton's method (ForestColl): for a guessed
// time a maximum flow to some host is too small, and its cut gives a longer time, until none is. Broadcast, Reduce and
// AllReduce: the least cut. Others take the sets of AllGather. Nothing for more than 64 hosts, or if all devices have
// the same leaf switch, where a host's own NICs bound more.
std::vector<Bound> bounds_of_network(const topology::Topology& topology, const topology::Cluster& cluster,
                                     Collective collective, Rank root, double bytes);

}  // namespace sccl::compose
