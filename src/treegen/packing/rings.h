// As many rings as there are edge-disjoint cycles through all ranks, each used both ways: what NCCL builds on links
// between devices. On machines whose links all lie on such cycles they reach the packing's rate with trees that all
// have one shape, so that no send waits for another tree's; elsewhere they leave links idle.
#pragma once

#include <optional>
#include <vector>

#include "schedule/schedule.h"
#include "treegen/graph/links.h"

namespace sccl::treegen {

using RingOrder = std::vector<Rank>;

struct DisjointCycles {
  std::vector<RingOrder> cycles;  // a cycle comes more than once where links have several lanes
  bool most_proved = false;       // there are no more of them
};

// Hamiltonian cycles that use no lane twice, in either direction. Nothing for topologies whose ranks meet in switches
// or shared sets, whose links differ by direction, and of fewer than 3 or more than 8 ranks.
DisjointCycles disjoint_cycles(const Topology& topology);

// Broadcast, Reduce: chains; AllReduce, AllGather, ReduceScatter: every rank's block around. Every ring carries the
// same share. Pipelined. Nothing for other collectives and where there is no cycle.
std::optional<schedule::Schedule> rings(const Topology& topology, Collective collective, Rank root);

// The same over given cycles, one way each; at least one.
schedule::Schedule rings_along(const std::vector<RingOrder>& one_way, const Topology& topology, Collective collective,
                               Rank root);

}  // namespace sccl::treegen
