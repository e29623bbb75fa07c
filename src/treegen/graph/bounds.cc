// Each bound is a fraction crossing / crossings, minimised by Newton's method: for a guessed rate p/q maximum flows
// search a cut with q * crossing < p * crossings, which gives the next, smaller guess. Numerators decrease strictly, so
// the method ends, mostly after two or three rounds.
#include "treegen/graph/bounds.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "treegen/graph/partitions.h"

namespace sccl::treegen {
namespace {

std::vector<Arc> arcs_of(const Links& links) {
  std::vector<Arc> arcs;
  for (const Edge& edge : links.edges()) arcs.push_back({edge.first, edge.second});
  return arcs;
}

std::vector<Node> chosen(const std::vector<bool>& side, int nodes) {
  std::vector<Node> result;
  for (Node node = 0; node < nodes; ++node)
    if (side[static_cast<std::size_t>(node)]) result.push_back(node);
  return result;
}

int data_among(const std::vector<Amount>& data_by_rank, const std::vector<Node>& nodes) {
  Amount data = 0;
  for (const Node node : nodes)
    if (static_cast<std::size_t>(node) < data_by_rank.size()) data += data_by_rank[static_cast<std::size_t>(node)];
  return static_cast<int>(data);
}

Bound bound_of(const Links& links, std::vector<std::vector<Node>> sets, int crossings_per_unit) {
  Bound bound;
  for (const auto& set : sets) bound.crossing += leaving(links, set);
  bound.crossings_per_unit = crossings_per_unit;
  bound.rate = Rational(bound.crossing, crossings_per_unit);
  bound.sets = std::move(sets);
  return bound;
}

// Adds to the links, whose capacities are scaled up, a node that feeds every rank with `supply` times its data.
class SuppliedRanks {
 public:
  SuppliedRanks(const Links& links, const std::vector<Amount>& data_by_rank)
      : links_(links),
        data_by_rank_(data_by_rank),
        all_(std::accumulate(data_by_rank.begin(), data_by_rank.end(), Amount{0})),
        flow_(links.nodes() + 1, arcs(links)) {}

  // The most violated set S found with scale * B+(S) < supply * (data of S).
  std::optional<Bound> violated(Amount supply, Amount scale) {
    const std::size_t edges = links_.edges().size();
    for (std::size_t edge = 0; edge < edges; ++edge) flow_.set_capacity(edge, links_.capacities()[edge].amount * scale);
    for (Rank rank = 0; rank < links_.ranks(); ++rank)
      flow_.set_capacity(edges + static_cast<std::size_t>(rank),
                         supply * data_by_rank_[static_cast<std::size_t>(rank)]);
    std::optional<Bound> worst;
    for (Rank rank = 0; rank < links_.ranks(); ++rank) {
      if (flow_.run(links_.nodes(), rank) >= supply * all_) continue;
      auto side = chosen(flow_.source_side(), links_.nodes());
      const int senders = data_among(data_by_rank_, side);
      Bound found = bound_of(links_, {std::move(side)}, senders);
      if (!worst || found.rate < worst->rate) worst = std::move(found);
    }
    return worst;
  }

 private:
  static std::vector<Arc> arcs(const Links& links) {
    std::vector<Arc> all = arcs_of(links);
    for (Rank rank = 0; rank < links.ranks(); ++rank) all.push_back({links.nodes(), rank});
    return all;
  }

  const Links& links_;
  const std::vector<Amount>& data_by_rank_;
  Amount all_;
  MaxFlow flow_;
};

}  // namespace

Amount leaving(const Links& links, const std::vector<Node>& nodes) {
  std::vector<bool> inside(static_cast<std::size_t>(links.nodes()), false);
  for (const Node node : nodes) inside[static_cast<std::size_t>(node)] = true;
  Amount total = 0;
  for (std::size_t edge = 0; edge < links.edges().size(); ++edge)
    if (inside[static_cast<std::size_t>(links.edges()[edge].first)] &&
        !inside[static_cast<std::size_t>(links.edges()[edge].second)])
      total += links.capacities()[edge].amount;
  return total;
}

Bound broadcast_bound(const Links& links, Rank root) {
  links.require_reachable(root);
  MaxFlow flow(links.nodes(), arcs_of(links));
  for (std::size_t edge = 0; edge < links.edges().size(); ++edge)
    flow.set_capacity(edge, links.capacities()[edge].amount);
  std::optional<Bound> least;
  for (Rank rank = 0; rank < links.ranks(); ++rank) {
    if (rank == root) continue;
    const Amount value = flow.run(root, rank);
    if (!least || least->rate > value) least = bound_of(links, {chosen(flow.source_side(), links.nodes())}, 1);
  }
  if (!least) fail(ErrorCode::invalid_argument, "a topology of one rank has nothing to pack: give at least two ranks");
  return *least;
}

Bound all_gather_bound(const Links& links) {
  return gather_bound(links, std::vector<Amount>(static_cast<std::size_t>(links.ranks()), 1));
}

Bound gather_bound(const Links& links, const std::vector<Amount>& data_by_rank) {
  for (Rank rank = 0; rank < links.ranks(); ++rank) links.require_reachable(rank);
  Bound best = broadcast_bound(links, 0);
  best = bound_of(links, best.sets, data_among(data_by_rank, best.sets.front()));
  SuppliedRanks ranks(links, data_by_rank);
  while (auto found = ranks.violated(best.rate.numerator(), best.rate.denominator())) best = std::move(*found);
  return best;
}

Bound all_reduce_bound(const Links& links) {
  for (Rank rank = 0; rank < links.ranks(); ++rank) links.require_reachable(rank);
  if (links.ranks() < 2)
    fail(ErrorCode::invalid_argument, "a topology of one rank has nothing to pack: give at least two ranks");
  std::vector<std::vector<Node>> singletons;
  for (Rank rank = 0; rank < links.ranks(); ++rank) singletons.push_back({rank});
  Bound best = bound_of(links, std::move(singletons), 2 * (links.ranks() - 1));
  CheapestPartition partitions(links);
  while (true) {
    PartitionCost cost;
    for (std::size_t edge = 0; edge < links.edges().size(); ++edge)
      cost.capacity_by_edge.push_back(links.capacities()[edge].amount * best.rate.denominator());
    cost.reward_per_set = 2 * best.rate.numerator();
    auto partition = partitions.run(cost);
    const int crossings = 2 * (static_cast<int>(partition.sets.size()) - 1);
    if (crossings == 0) return best;
    Bound found = bound_of(links, std::move(partition.sets), crossings);
    if (found.rate >= best.rate) return best;
    best = std::move(found);
  }
}

}  // namespace sccl::treegen
