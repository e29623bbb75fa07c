#include "topology/graph/metrics.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "topology/graph/like_ranks.h"
#include "topology/graph/max_flow.h"
#include "topology/graph/routes.h"

namespace sccl::topology {
namespace {

constexpr int kSmall = 14;  // up to so many nodes, all subsets are enumerated

std::size_t index(int node) { return static_cast<std::size_t>(node); }

// Capacities in lanes.
std::vector<CapacityArc> capacities_of(const Topology& topology) {
  std::vector<CapacityArc> result;
  for (const auto& [edge, lanes] : edge_lanes(topology)) result.push_back({edge.first, edge.second, lanes});
  return result;
}

Topology reversed(Topology topology) {
  for (Link& link : topology.links) std::swap(link.src, link.dst);
  for (SharedSet& set : topology.shared)
    for (auto& [src, dst] : set.links) std::swap(src, dst);
  return topology;
}

// Chunks that must enter a set of nodes, divided by the chunks of a rank's buffer (the C of schedule files).
struct Demand {
  int ranks;
  Collective collective;
  Rank root;

  Ratio of(const std::vector<bool>& inside) const {
    const int within = static_cast<int>(std::count(inside.begin(), inside.begin() + ranks, true));
    const int without = ranks - within;
    if (within == 0 || without == 0) return 0;
    const bool root_inside = inside[index(root)];
    switch (collective) {
      case Collective::allgather:
        return without;
      case Collective::gather:
        return root_inside ? without : 0;
      case Collective::alltoall:
        return Ratio(without) * within / ranks;
      case Collective::broadcast:
        return root_inside ? 0 : 1;
      case Collective::scatter:
        return root_inside ? Ratio(0) : Ratio(within, ranks);
      default:
        return 1;  // allreduce: each side of the cut needs the other side's sum
    }
  }
};

// The greatest ratio of demand to lanes over all sets of nodes. A shared set limits the sum of its links that cross the
// cut. A link counts in the first of its shared sets only; this keeps the bound valid where sets overlap.
std::optional<Ratio> bound_over_all_cuts(const Topology& topology, const Demand& demand) {
  const std::vector<CapacityArc> capacities = capacities_of(topology);
  std::vector<int> set_of(capacities.size(), -1);
  for (std::size_t set = 0; set < topology.shared.size(); ++set)
    for (const auto& [src, dst] : topology.shared[set].links)
      for (std::size_t i = 0; i < capacities.size(); ++i)
        if (capacities[i].src == src && capacities[i].dst == dst && set_of[i] < 0) set_of[i] = static_cast<int>(set);
  Ratio greatest = 0;
  std::vector<bool> inside(index(topology.nodes()));
  for (unsigned members = 1; members + 1 < 1u << topology.nodes(); ++members) {
    for (Node node = 0; node < topology.nodes(); ++node) inside[index(node)] = members >> node & 1u;
    const Ratio needed = demand.of(inside);
    // Comparing with an int recurses for ever in C++20 (Boost 1.74 and its reversed operator).
    if (needed.numerator() == 0) continue;
    std::int64_t lanes = 0;
    std::vector<std::int64_t> of_set(topology.shared.size(), 0);
    for (std::size_t i = 0; i < capacities.size(); ++i) {
      if (inside[index(capacities[i].src)] || !inside[index(capacities[i].dst)]) continue;
      (set_of[i] < 0 ? lanes : of_set[index(set_of[i])]) += capacities[i].capacity;
    }
    for (std::size_t set = 0; set < of_set.size(); ++set)
      lanes += std::min<std::int64_t>(of_set[set], topology.shared[set].lanes);
    if (lanes == 0) return std::nullopt;
    greatest = std::max(greatest, needed / lanes);
  }
  return greatest;
}

constexpr std::int64_t kMostLanes = std::numeric_limits<std::int32_t>::max();
const Ratio kLeastBound(1, kMostLanes);

// Whether the links from rank to sink alone carry what each rank sends: the bound of no cut is greater then.
bool direct_links_suffice(const Topology& topology, const std::vector<CapacityArc>& links, Rank sink,
                          const Ratio& bound) {
  int enough = 0;
  for (const CapacityArc& link : links)
    if (link.dst == sink && link.src < topology.ranks && link.capacity * bound.numerator() >= bound.denominator())
      ++enough;
  return enough == topology.ranks - 1;
}

// Every rank sends the same amount to `sink`. The bound is the greatest (ranks outside) / (lanes inwards) over sets
// that contain the sink. Newton's method for ratios (Dinkelbach): each minimum cut at the present ratio gives a greater
// ratio, or proves that the present ratio is the greatest.
std::optional<Ratio> gather_bound(const Topology& topology, const std::vector<CapacityArc>& links, Rank sink,
                                  Ratio at_least) {
  const Node source = topology.nodes();
  Ratio bound = at_least;
  for (;;) {
    if (direct_links_suffice(topology, links, sink, bound)) return bound;
    // Each rank supplies `denominator` units, each lane carries `numerator` units.
    std::vector<CapacityArc> capacities = links;
    for (CapacityArc& one : capacities) one.capacity *= bound.numerator();
    for (Rank rank = 0; rank < topology.ranks; ++rank)
      if (rank != sink) capacities.push_back({source, rank, bound.denominator()});
    const FlowCut found = minimum_cut(topology.nodes() + 1, capacities, source, sink);
    if (found.value == bound.denominator() * (topology.ranks - 1)) return bound;
    const auto outside = [&](Node node) -> bool { return found.source_side[index(node)]; };
    std::int64_t senders = 0, lanes = 0;
    for (Rank rank = 0; rank < topology.ranks; ++rank) senders += outside(rank);
    for (const CapacityArc& link : links)
      if (outside(link.src) && !outside(link.dst)) lanes += link.capacity;
    if (lanes == 0) return std::nullopt;
    bound = Ratio(senders, lanes);
  }
}

std::optional<Ratio> gather_bound(const Topology& topology, Rank sink) {
  return gather_bound(topology, capacities_of(topology), sink, kLeastBound);
}

std::optional<Ratio> allgather_bound(const Topology& topology) {
  const std::vector<CapacityArc> links = capacities_of(topology);
  const std::vector<Rank> alike = first_alike(topology);
  Ratio bound = kLeastBound;
  for (Rank sink = 0; sink < topology.ranks; ++sink) {
    if (alike[index(sink)] != sink) continue;
    const std::optional<Ratio> one = gather_bound(topology, links, sink, bound);
    if (!one) return std::nullopt;
    bound = *one;
  }
  return bound;
}

// By rank: lanes of the direct link from the root, and of all ways over one node between them. No flow is less.
std::vector<std::int64_t> lanes_of_short_ways(const Topology& topology, const std::vector<CapacityArc>& links,
                                              Rank root) {
  std::vector<std::int64_t> from_root(index(topology.nodes()), 0);
  for (const CapacityArc& link : links)
    if (link.src == root) from_root[index(link.dst)] = link.capacity;
  std::vector<std::int64_t> lanes = from_root;
  for (const CapacityArc& link : links)
    if (link.src != root) lanes[index(link.dst)] += std::min(from_root[index(link.src)], link.capacity);
  return lanes;
}

// 1 / the least flow from the root to a rank. A rank that short ways alone bring as much is passed over.
std::optional<Ratio> broadcast_bound(const Topology& topology, Rank root) {
  const std::vector<CapacityArc> links = capacities_of(topology);
  const std::vector<std::int64_t> known = lanes_of_short_ways(topology, links, root);
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (Rank rank = 0; rank < topology.ranks; ++rank)
    if (rank != root && known[index(rank)] < least)
      least = std::min(least, minimum_cut(topology.nodes(), links, root, rank).value);
  if (least == 0) return std::nullopt;
  return Ratio(1, least);
}

using Neighbours = std::vector<std::vector<Node>>;

Neighbours neighbours_of(const Topology& topology) {
  Neighbours next(index(topology.nodes()));
  for (const Link& link : topology.links) next[index(link.src)].push_back(link.dst);
  return next;
}

// Breadth-first search over ranks. All new ranks that direct links or switches join to ranks of one distance are one
// hop further.
std::vector<int> hops(int ranks, const Neighbours& next, Rank src) {
  std::vector<int> distance(index(ranks), -1);
  std::vector<bool> crossed(next.size(), false);  // switches
  std::vector<Rank> here{src}, further;
  distance[index(src)] = 0;
  int missing = ranks - 1;
  for (int hop = 1; missing > 0 && !here.empty(); ++hop) {
    further.clear();
    std::vector<Node> waiting(here.begin(), here.end());
    while (!waiting.empty() && missing > 0) {
      const Node at = waiting.back();
      waiting.pop_back();
      for (const Node to : next[index(at)]) {
        if (to >= ranks) {
          if (!crossed[index(to)]) waiting.push_back(to);
          crossed[index(to)] = true;
        } else if (distance[index(to)] < 0) {
          distance[index(to)] = hop;
          further.push_back(to);
          --missing;
        }
      }
    }
    here.swap(further);
  }
  return distance;
}

std::int64_t lanes_into(const Topology& topology, auto&& counts) {
  std::int64_t lanes = 0;
  for (const Link& link : topology.links)
    if (counts(link.dst)) lanes += link.lanes;
  return lanes;
}

std::optional<Ratio> alltoall_bound(const Topology& topology) {
  const Neighbours next = neighbours_of(topology);
  const std::vector<Rank> alike = first_alike(topology);
  Ratio bound = 0;
  std::int64_t ways = 0;
  for (Rank rank = 0; rank < topology.ranks; ++rank) {
    if (alike[index(rank)] != rank) continue;
    const std::int64_t count = std::count(alike.begin(), alike.end(), rank);
    const std::int64_t lanes = lanes_into(topology, [&](Node node) { return node == rank; });
    if (lanes == 0) return std::nullopt;
    bound = std::max(bound, Ratio(topology.ranks - 1, topology.ranks) / lanes);
    for (const int distance : hops(topology.ranks, next, rank)) {
      if (distance < 0) return std::nullopt;
      ways += count * distance;
    }
  }
  // Every hop ends on a link into a rank.
  const std::int64_t all = lanes_into(topology, [&](Node node) { return node < topology.ranks; });
  return std::max(bound, Ratio(ways, topology.ranks) / all);
}

std::optional<Ratio> bound_by_cuts(const Topology& topology, Collective collective, Rank root) {
  if (topology.nodes() <= kSmall) return bound_over_all_cuts(topology, {topology.ranks, collective, root});
  switch (collective) {
    case Collective::allgather:
      return allgather_bound(topology);
    case Collective::gather:
      return gather_bound(topology, root);
    case Collective::alltoall:
      return alltoall_bound(topology);
    case Collective::broadcast:
      return broadcast_bound(topology, root);
    case Collective::scatter: {
      const auto gathered = gather_bound(reversed(topology), root);
      return gathered ? std::optional(*gathered / topology.ranks) : std::nullopt;
    }
    default: {
      const auto out = broadcast_bound(topology, 0);
      const auto back = broadcast_bound(reversed(topology), 0);
      return out && back ? std::optional(std::max(*out, *back)) : std::nullopt;
    }
  }
}

}  // namespace

std::vector<int> hops_from(const Topology& topology, Rank src) {
  return hops(topology.ranks, neighbours_of(topology), src);
}

std::optional<int> diameter(const Topology& topology) {
  const Neighbours next = neighbours_of(topology);
  const std::vector<Rank> alike = first_alike(topology);
  int most = 0;
  for (Rank rank = 0; rank < topology.ranks; ++rank) {
    if (alike[index(rank)] != rank) continue;
    for (const int distance : hops(topology.ranks, next, rank)) {
      if (distance < 0) return std::nullopt;
      most = std::max(most, distance);
    }
  }
  return most;
}

Cut max_flow(const Topology& topology, Node src, Node dst) {
  const auto known = [&](Node node) { return node >= 0 && node < topology.nodes(); };
  if (!known(src) || !known(dst) || src == dst)
    fail(ErrorCode::invalid_argument, "a flow from node {} to node {}: name two different nodes of 0..{}", src, dst,
         topology.nodes() - 1);
  const FlowCut found = minimum_cut(topology.nodes(), capacities_of(topology), src, dst);
  Cut cut{static_cast<int>(found.value), {}};
  for (Node node = 0; node < topology.nodes(); ++node)
    if (found.source_side[index(node)]) cut.source_side.push_back(node);
  return cut;
}

std::optional<Ratio> inverse_bisection_bound(const Topology& topology, Collective collective, Rank root) {
  if (root < 0 || root >= topology.ranks)
    fail(ErrorCode::invalid_argument, "root {} is not one of the ranks 0..{}", root, topology.ranks - 1);
  if (topology.ranks == 1) return Ratio(0);
  switch (collective) {
    case Collective::reduce:
      return bound_by_cuts(reversed(topology), Collective::broadcast, root);
    case Collective::reducescatter: {
      // An allgather on the reversed links; its C counts the chunks of one rank's part only.
      const auto bound = bound_by_cuts(reversed(topology), Collective::allgather, root);
      return bound ? std::optional(*bound / topology.ranks) : std::nullopt;
    }
    case Collective::allreduce: {
      const auto bound = bound_by_cuts(topology, collective, root);
      // Every rank's part must reach every other rank: at least 2 (ranks - 1) messages for each chunk.
      const std::int64_t lanes = lanes_into(topology, [&](Node node) { return node < topology.ranks; });
      return bound ? std::optional(std::max(*bound, Ratio(2 * (topology.ranks - 1), lanes))) : std::nullopt;
    }
    case Collective::sendrecv:
      fail(ErrorCode::invalid_argument,
           "send and receive have no bound of their own: ask for the flow between two ranks");
    default:
      return bound_by_cuts(topology, collective, root);
  }
}

}  // namespace sccl::topology
