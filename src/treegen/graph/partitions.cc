// Dilworth truncation (Cunningham 1985): for one rank after another, find the cheapest set of this rank and earlier
// ranks, where including an earlier rank earns its price. The set's cost above these prices is the new rank's price.
// The prices add up to the cost of the cheapest partition; uniting intersecting sets gives its sets. Each set is a
// minimum cut, because "what leaves A" and "A intersects `together`" are submodular.
#include "treegen/graph/partitions.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace sccl::treegen {
namespace {

constexpr Amount kNever = std::numeric_limits<Amount>::max() / 1024;

// Nodes after the links' own: source, sink, and one that is reached as soon as a set intersects `together`. Arcs after
// the links' edges: for every rank source -> rank, rank -> sink, rank -> meeting; then meeting -> sink.
std::vector<Arc> arcs_of(const Links& links) {
  std::vector<Arc> arcs;
  for (const Edge& edge : links.edges()) arcs.push_back({edge.first, edge.second});
  const int source = links.nodes();
  for (Rank rank = 0; rank < links.ranks(); ++rank)
    arcs.insert(arcs.end(), {{source, rank}, {rank, source + 1}, {rank, source + 2}});
  arcs.push_back({source + 2, source + 1});
  return arcs;
}

void join(std::vector<std::vector<Node>>& sets, std::vector<Node> set, int ranks) {
  std::vector<std::vector<Node>> apart;
  for (auto& other : sets) {
    const bool meets = std::any_of(other.begin(), other.end(), [&](Node node) {
      return node < ranks && std::find(set.begin(), set.end(), node) != set.end();
    });
    if (meets)
      set.insert(set.end(), other.begin(), other.end());
    else
      apart.push_back(std::move(other));
  }
  std::sort(set.begin(), set.end());
  set.erase(std::unique(set.begin(), set.end()), set.end());
  apart.push_back(std::move(set));
  sets = std::move(apart);
}

}  // namespace

CheapestPartition::CheapestPartition(const Links& links) : links_(links), flow_(links.nodes() + 3, arcs_of(links)) {}

Partition CheapestPartition::run(const PartitionCost& cost) {
  const std::size_t edges = cost.capacity_by_edge.size();
  for (std::size_t edge = 0; edge < edges; ++edge) flow_.set_capacity(edge, cost.capacity_by_edge[edge]);
  for (Rank rank = 0; rank < links_.ranks(); ++rank)
    flow_.set_capacity(edges + 3 * static_cast<std::size_t>(rank) + 2, 0);
  for (const Rank rank : cost.together) flow_.set_capacity(edges + 3 * static_cast<std::size_t>(rank) + 2, kNever);
  flow_.set_capacity(edges + 3 * static_cast<std::size_t>(links_.ranks()), cost.reward_if_apart);
  prices_.assign(static_cast<std::size_t>(links_.ranks()), 0);
  Partition result;
  for (Rank rank = 0; rank < links_.ranks(); ++rank) {
    Amount price = -cost.reward_per_set - cost.reward_if_apart;
    join(result.sets, cheapest_set_with(rank, price), links_.ranks());
    prices_[static_cast<std::size_t>(rank)] = price;
  }
  result.cost = std::accumulate(prices_.begin(), prices_.end(), Amount{0});
  return result;
}

// Adds the cut to `cost_of_last`, less the prices of the included ranks.
std::vector<Node> CheapestPartition::cheapest_set_with(Rank last, Amount& cost_of_last) {
  Amount saved = 0;
  for (Rank rank = 0; rank < links_.ranks(); ++rank) {
    const Amount price = prices_[static_cast<std::size_t>(rank)];
    const std::size_t enter = links_.edges().size() + 3 * static_cast<std::size_t>(rank);
    const bool before = rank < last;
    if (before) saved += std::max<Amount>(0, price);
    flow_.set_capacity(enter, rank == last ? kNever : before ? std::max<Amount>(0, price) : 0);
    flow_.set_capacity(enter + 1, rank > last ? kNever : before ? std::max<Amount>(0, -price) : 0);
  }
  cost_of_last += flow_.run(links_.nodes(), links_.nodes() + 1) - saved;
  const auto side = flow_.source_side();
  std::vector<Node> set;
  for (Node node = 0; node < links_.nodes(); ++node)
    if (side[static_cast<std::size_t>(node)]) set.push_back(node);
  return set;
}

}  // namespace sccl::treegen
