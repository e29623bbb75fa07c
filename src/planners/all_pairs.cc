// AllReduce in one step: every rank sends its whole buffer to every other and adds up what it gets.
#include "planners/planners.h"
#include "planners/route.h"

namespace sccl::planners {

std::optional<Schedule> all_pairs(const Topology& topology, Collective collective, Rank root) {
  if (collective != Collective::allreduce) return std::nullopt;
  RouteBuilder route;
  for (Rank owner = 0; owner < topology.ranks; ++owner)
    for (Rank rank = 0; rank < topology.ranks; ++rank)
      if (rank != owner) route.reduce(0, rank, owner, 0);
  return std::move(route).finish("all-pairs", collective, root, topology, 1);
}

}  // namespace sccl::planners
