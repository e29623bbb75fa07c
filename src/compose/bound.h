// What no schedule on a cluster can beat: cuts around ranks, parts of hosts, hosts and racks; the NICs of all hosts
// together; latency.
#pragma once

#include <string>
#include <vector>

#include "schedule/edge_index.h"
#include "topology/cluster.h"

namespace sccl::compose {

struct Bound {
  double us = 0;
  std::string why;  // "15 x 64 MiB enter host 3 over 100 GB/s" in the sense; names the cut
};

// For a buffer of `bytes` (the L of schedule/cost.h): one bound of each kind that says anything, the greatest first.
// Every one holds for itself: what must cross a cut, over all that crosses it. O(links + ranks); parts of hosts are
// looked at up to 16 devices.
std::vector<Bound> bounds(const topology::Topology& topology, const topology::Cluster& cluster, Collective collective,
                          Rank root, double bytes);

}  // namespace sccl::compose
