// The ways of data from and to the first of several hosts that are alike, over its own links and its part of those that
// hosts share.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "schedule/edge_index.h"
#include "schedule/host_share.h"
#include "topology/symmetry/cluster.h"

namespace sccl::compose {

struct HostWays {
  topology::Topology links;  // nodes from 0: the host's ranks, then switches
  std::array<schedule::HostShare::Ways, 3> ways;
  std::vector<int> rack_of;   // by host
  std::vector<bool> outside;  // by node: switches of the network
};

// Of so many hosts of one rack, each with its own links: ranks of the first one come first, then those of the next.
HostWays of_several(const HostWays& of_one, int hosts);

// Nothing unless all hosts have the same links and NICs, those of a rack are at the same leaf switches, and racks have
// as many hosts, the same links to one switch between them all, or two racks to each other.
std::optional<HostWays> ways_of_alike_hosts(const topology::Topology& topology, const topology::Cluster& cluster,
                                            const schedule::EdgeIndex& edges);

}  // namespace sccl::compose
