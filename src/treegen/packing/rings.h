// As many rings as there are edge-disjoint cycles through all ranks, each used both ways, as NCCL builds them on links
// between devices. If all links lie on such cycles, rings reach the packing's rate with trees of one shape, so no send
// waits for another tree's send. On other machines they leave links idle.
#pragma once

#include <optional>
#include <vector>

#include "schedule/schedule.h"
#include "treegen/graph/links.h"

namespace sccl::treegen {

using RingOrder = std::vector<Rank>;

struct DisjointCycles {
  std::vector<RingOrder> cycles;  // a cycle is repeated if links have several lanes
  bool most_proved = false;       // no larger set exists
};

// Hamiltonian cycles that use no lane twice, in either direction. Nothing for topologies with switches or shared sets,
// for links that differ by direction, and for fewer than 3 or more than 8 ranks.
DisjointCycles disjoint_cycles(const Topology& topology);

// Broadcast, Reduce: chains. AllReduce, AllGather, ReduceScatter: every rank's block goes around. Every ring carries
// the same share. Pipelined. Nothing for other collectives, or if there is no cycle.
std::optional<schedule::Schedule> rings(const Topology& topology, Collective collective, Rank root);

// As rings(), over given cycles in one direction each; at least one.
schedule::Schedule rings_along(const std::vector<RingOrder>& one_way, const Topology& topology, Collective collective,
                               Rank root);

}  // namespace sccl::treegen
