#include "treegen/integral.h"

#include <algorithm>
#include <numeric>

namespace sccl::treegen {
namespace {

class Packer {
 public:
  Packer(const Links& links, std::vector<Amount> demands, Amount scale)
      : links_(links), demands_(std::move(demands)), flow_(links.nodes() + 2, arcs(links)) {
    for (std::size_t edge = 0; edge < links.edges().size(); ++edge)
      residual_.push_back(links.capacities()[edge].amount * scale);
  }

  std::optional<std::vector<WholeTree>> run() {
    if (!everyone_served({}, 0)) return std::nullopt;
    std::vector<WholeTree> trees;
    for (Rank root = next_root(); root >= 0; root = next_root()) {
      auto tree = heaviest(root);
      if (!tree) return std::nullopt;
      trees.push_back(std::move(*tree));
    }
    return trees;
  }

 private:
  // Super source -> roots (what each still has to send), -> one node for the unfinished tree -> its ranks.
  static std::vector<Arc> arcs(const Links& links) {
    std::vector<Arc> all;
    for (const Edge& edge : links.edges()) all.push_back({edge.first, edge.second});
    const int source = links.nodes();
    const int unfinished = source + 1;
    for (Rank rank = 0; rank < links.ranks(); ++rank) all.push_back({source, rank});
    for (Rank rank = 0; rank < links.ranks(); ++rank) all.push_back({unfinished, rank});
    all.push_back({source, unfinished});
    return all;
  }

  // The root with the largest demand left: roots take turns.
  Rank next_root() const {
    const auto most = std::max_element(demands_.begin(), demands_.end());
    return *most > 0 ? static_cast<Rank>(most - demands_.begin()) : -1;
  }

  std::optional<WholeTree> heaviest(Rank root) {
    Amount& demand = demands_[static_cast<std::size_t>(root)];
    const Amount whole = demand;
    for (Amount weight = whole; weight > 0; --weight) {
      const auto before = residual_;
      demand = whole - weight;
      if (auto tree = grow(root, weight)) return WholeTree{std::move(*tree), weight};
      residual_ = before;
      demand = whole;
    }
    return std::nullopt;
  }

  std::optional<Tree> grow(Rank root, Amount weight) {
    const auto ranks = static_cast<std::size_t>(links_.ranks());
    Tree tree{root, std::vector<Rank>(ranks, -1)};
    std::vector<Rank> inside{root};  // in the order of their depth
    std::vector<bool> reached(ranks, false);
    reached[static_cast<std::size_t>(root)] = true;
    // A hop that does not fit now never will, because capacities only shrink and the tree only grows.
    for (std::size_t at = 0; at < inside.size(); ++at)
      for (Rank next = 0; next < links_.ranks(); ++next) {
        if (reached[static_cast<std::size_t>(next)] || !take(inside[at], next, weight, inside)) continue;
        tree.parent[static_cast<std::size_t>(next)] = inside[at];
        reached[static_cast<std::size_t>(next)] = true;
        inside.push_back(next);
      }
    if (inside.size() < ranks) return std::nullopt;
    return tree;
  }

  bool take(Rank from, Rank to, Amount weight, const std::vector<Rank>& inside) {
    const int hop = links_.hop(from, to);
    if (hop < 0) return false;
    const auto& uses = links_.hops()[static_cast<std::size_t>(hop)].uses;
    const bool fits = std::all_of(uses.begin(), uses.end(), [&](const Use& use) {
      return residual_[static_cast<std::size_t>(use.capacity)] >= weight * use.times;
    });
    if (!fits) return false;
    for (const Use& use : uses) residual_[static_cast<std::size_t>(use.capacity)] -= weight * use.times;
    std::vector<Rank> grown = inside;
    grown.push_back(to);
    if (everyone_served(grown, weight)) return true;
    for (const Use& use : uses) residual_[static_cast<std::size_t>(use.capacity)] += weight * use.times;
    return false;
  }

  bool everyone_served(const std::vector<Rank>& unfinished, Amount weight) {
    const std::size_t edges = residual_.size();
    const auto ranks = static_cast<std::size_t>(links_.ranks());
    const Amount offered = std::accumulate(demands_.begin(), demands_.end(), weight);
    for (std::size_t edge = 0; edge < edges; ++edge) flow_.set_capacity(edge, residual_[edge]);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      flow_.set_capacity(edges + rank, demands_[rank]);
      flow_.set_capacity(edges + ranks + rank, 0);
    }
    for (const Rank rank : unfinished) flow_.set_capacity(edges + ranks + static_cast<std::size_t>(rank), weight);
    flow_.set_capacity(edges + 2 * ranks, weight);
    for (Rank rank = 0; rank < links_.ranks(); ++rank)
      if (flow_.run(links_.nodes(), rank) < offered) return false;
    return true;
  }

  const Links& links_;
  std::vector<Amount> demands_;
  std::vector<Amount> residual_;  // by edge
  MaxFlow flow_;
};

}  // namespace

std::optional<std::vector<WholeTree>> pack_whole(const Links& links, const std::vector<Amount>& demand_by_root,
                                                 Amount scale) {
  if (links.has_shared_sets()) return std::nullopt;
  return Packer(links, demand_by_root, scale).run();
}

}  // namespace sccl::treegen
