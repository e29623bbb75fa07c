#include "rings.h"

#include <numeric>

#include "base/error.h"

namespace sccl::bench {
namespace {

topology::Topology pcie_ring(const topology::Topology& nvlink, double pcie_lanes) {
  topology::Topology ring;
  ring.name = nvlink.name + " over PCIe";
  ring.ranks = nvlink.ranks;
  const topology::Link& like = nvlink.links.front();
  const double gbytes_per_s = pcie_lanes * like.gbytes_per_s / like.lanes;
  for (Rank rank = 0; rank < ring.ranks; ++rank)
    ring.links.push_back({rank, (rank + 1) % ring.ranks, 1, gbytes_per_s, like.alpha_us, topology::LinkClass::pcie});
  return ring;
}

}  // namespace

RingRates ring_rates(const topology::Topology& topology, double pcie_lanes) {
  const treegen::DisjointCycles found = treegen::disjoint_cycles(topology);
  if (!found.most_proved)
    fail(ErrorCode::internal_error, "the number of disjoint cycles of '{}' was not decided", topology.name);
  const int cycles = static_cast<int>(found.cycles.size());
  const double ranks = topology.ranks;
  RingRates rates;
  rates.rings = 2 * cycles;
  rates.broadcast = cycles > 0 ? 2 * cycles : pcie_lanes;
  rates.allreduce = rates.broadcast * ranks / (2 * (ranks - 1));
  return rates;
}

schedule::Schedule ring_schedule(const topology::Topology& topology, Collective collective, Rank root,
                                 double pcie_lanes) {
  if (auto nvlink = treegen::rings(topology, collective, root)) return *std::move(nvlink);
  treegen::RingOrder order(static_cast<std::size_t>(topology.ranks));
  std::iota(order.begin(), order.end(), 0);
  return treegen::rings_along({order}, pcie_ring(topology, pcie_lanes), collective, root);
}

}  // namespace sccl::bench
