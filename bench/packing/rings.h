// What NCCL's rings reach on the same links: as many NVLink cycles through all devices as fit, else one PCIe ring.
#pragma once

#include <vector>

#include "schedule/schedule.h"
#include "topology/topology.h"

namespace sccl::bench {

using RingOrder = std::vector<Rank>;

// The most edge-disjoint Hamiltonian cycles of a symmetric topology without switches; each serves as two rings, one
// each way. A cycle may come more than once where links have several lanes.
std::vector<RingOrder> disjoint_cycles(const topology::Topology& topology);

// Blink 5.1: PCIe does half of what an NVLink lane does.
inline constexpr double kPcieLanes = 0.5;

// Rates in lanes of the whole buffer: every ring carries its share of a Broadcast past all others, and an AllReduce
// 2 (n - 1) / n times.
struct RingRates {
  int rings = 0;  // one-way; 0: PCIe
  double broadcast = 0;
  double allreduce = 0;
};
RingRates ring_rates(const topology::Topology& topology);

// The rings as a schedule: chains from the root, or ReduceScatter and AllGather around. On PCIe the topology is a
// one-way ring of links of half a lane's bandwidth.
schedule::Schedule ring_schedule(const topology::Topology& topology, Collective collective);

}  // namespace sccl::bench
