// Two-hop schedules of one root: every other rank has a part of the buffer, and passes it between the root and the
// rest. No rank receives or sends more than the buffer once, which star and chain miss where all ranks are joined to
// one switch: the root sends everything to everyone, or data passes all ranks one after the other.
#include "planners/planners.h"
#include "planners/route.h"

namespace sccl::planners {

std::optional<Schedule> two_hop(const Topology& topology, Collective collective, Rank root) {
  const int ranks = topology.ranks;
  if ((collective != Collective::broadcast && collective != Collective::reduce) || ranks < 3) return std::nullopt;
  const auto after = [&](Rank rank, int distance) { return (rank + distance) % ranks; };
  RouteBuilder route;
  for (int part = 0; part + 1 < ranks; ++part) {
    const Rank middle = after(root, part + 1);
    // Each begins with the rank after it, so that not all send to the same one at first.
    for (int distance = 1; distance < ranks; ++distance) {
      const Rank other = after(middle, distance);
      if (other == root) continue;
      if (collective == Collective::broadcast)
        route.copy(part, middle, other, 1);
      else
        route.reduce(part, other, middle, 0);
    }
    if (collective == Collective::broadcast)
      route.copy(part, root, middle, 0);
    else
      route.reduce(part, middle, root, 1);
  }
  return std::move(route).finish("two-hop", collective, root, topology, ranks - 1);
}

}  // namespace sccl::planners
