// NCCL's rings on the links of an allocation: as many NVLink cycles through all devices as fit, else one PCIe ring.
#pragma once

#include "treegen/packing/rings.h"

namespace sccl::bench {

// Blink 5.1: PCIe does half of what an NVLink lane does.
inline constexpr double kPcieLanes = 0.5;

// Rates in lanes of the whole buffer: every ring carries its share of a Broadcast past all others, and an AllReduce
// 2 (n - 1) / n times.
struct RingRates {
  int rings = 0;  // one-way; 0: PCIe
  double broadcast = 0;
  double allreduce = 0;
};
RingRates ring_rates(const topology::Topology& topology, double pcie_lanes = kPcieLanes);

// The rings as a schedule: chains from the root, or ReduceScatter and AllGather around. On PCIe the topology is a
// one-way ring of links of that part of a lane's bandwidth.
schedule::Schedule ring_schedule(const topology::Topology& topology, Collective collective, Rank root,
                                 double pcie_lanes = kPcieLanes);

}  // namespace sccl::bench
