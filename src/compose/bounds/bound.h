// Lower bounds for every schedule on a cluster: cuts around ranks, parts of hosts, hosts and racks; the NICs of all
// hosts together; the ways that end at devices (ways_bound.h); sets of hosts (network_bound.h); places to cut lines and
// rings of switches (row_bound.h); several parts of a host at once (parts_bound.h); the way to the farthest device
// (latency/quickest_flow.h); the latencies behind NICs (latency_bound.h); latency.
#pragma once

#include <string>
#include <vector>

#include "schedule/edge_index.h"
#include "topology/symmetry/cluster.h"

namespace sccl::compose {

struct Bound {
  double us = 0;
  std::string why;  // names the cut, for example "15 x 64 MiB enter host 3 over 100 GB/s"
};

// For a buffer of `bytes` (the L of schedule/simulation/cost.h): one bound of each kind that applies, the greatest
// first. Each bound holds on its own: the bytes that must cross a cut, divided by the bandwidth across it. O(links +
// ranks); parts of hosts are tried for up to 16 devices.
std::vector<Bound> bounds(const topology::Topology& topology, const topology::Cluster& cluster, Collective collective,
                          Rank root, double bytes);

}  // namespace sccl::compose
