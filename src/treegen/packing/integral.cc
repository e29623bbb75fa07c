#include "treegen/packing/integral.h"

#include <algorithm>
#include <numeric>

#include "treegen/graph/kept_flows.h"
#include "treegen/graph/partitions.h"

namespace sccl::treegen {
namespace {

// The order in which hops are tried: shallow hops first, or hops whose paths use the fewest links first. The latter
// keeps switches for ranks that no other hop reaches.
enum class HopPreference { shallow, short_path };

// Heavy trees make packings of few trees, but behind switches they can leave capacities that no tree fits; then lighter
// trees are tried.
struct Effort {
  HopPreference preference;
  Amount heaviest;
};

class Packer {
 public:
  Packer(const Links& links, std::vector<Amount> demands, Amount scale, Effort effort)
      : links_(links), demands_(std::move(demands)), effort_(effort) {
    for (std::size_t edge = 0; edge < links.edges().size(); ++edge)
      residual_.push_back(links.capacities()[edge].amount * scale);
    for (const Hop& hop : links.hops()) longest_path_ = std::max(longest_path_, hop.uses.size());
  }
  virtual ~Packer() = default;

  std::optional<std::vector<WholeTree>> run() {
    if (!completable({}, 0)) return std::nullopt;
    std::vector<WholeTree> trees;
    for (Amount* demand = most_wanted(); demand != nullptr; demand = most_wanted()) {
      auto tree = heaviest(*demand);
      if (!tree) return std::nullopt;
      trees.push_back(std::move(*tree));
    }
    return trees;
  }

 protected:
  // Can a tree of `weight` that contains the ranks `unfinished` be completed, and all demands be met beside it?
  virtual bool completable(const std::vector<Rank>& unfinished, Amount weight) = 0;
  virtual std::vector<Use> uses_of(int hop) const = 0;
  virtual Rank root_for(std::size_t demand) const = 0;

  const Links& links_;
  std::vector<Amount> demands_;
  std::vector<Amount> residual_;  // by edge

 private:
  Effort effort_;
  std::size_t longest_path_ = 1;

  // The largest demand, so that roots take turns. Null when all demands are met.
  Amount* most_wanted() {
    const auto most = std::max_element(demands_.begin(), demands_.end());
    return *most > 0 ? &*most : nullptr;
  }

  std::optional<WholeTree> heaviest(Amount& demand) {
    const Amount whole = demand;
    const Rank root = root_for(static_cast<std::size_t>(&demand - demands_.data()));
    // Weights are tried one by one if small, in steps of a sixteenth if capacities are finely divided.
    for (Amount weight = std::min(whole, effort_.heaviest); weight > 0; weight -= std::max<Amount>(1, weight / 16)) {
      const auto before = residual_;
      demand = whole - weight;
      if (auto tree = grow(root, weight)) return WholeTree{std::move(*tree), weight};
      residual_ = before;
      demand = whole;
    }
    return std::nullopt;
  }

  // A cheap test that rejects most weights that are too heavy: the hops that can carry the weight must reach all ranks.
  bool wide_enough(Rank root, Amount weight) const {
    std::vector<bool> reached(static_cast<std::size_t>(links_.ranks()), false);
    std::vector<Rank> waiting{root};
    reached[static_cast<std::size_t>(root)] = true;
    int count = 1;
    while (!waiting.empty()) {
      const Rank at = waiting.back();
      waiting.pop_back();
      for (Rank next = 0; next < links_.ranks(); ++next) {
        const int hop = links_.hop(at, next);
        if (hop < 0 || reached[static_cast<std::size_t>(next)] || !fits(uses_of(hop), weight)) continue;
        reached[static_cast<std::size_t>(next)] = true;
        waiting.push_back(next);
        ++count;
      }
    }
    return count == links_.ranks();
  }

  std::optional<Tree> grow(Rank root, Amount weight) {
    if (!wide_enough(root, weight)) return std::nullopt;
    const auto ranks = static_cast<std::size_t>(links_.ranks());
    Tree tree{root, std::vector<Rank>(ranks, -1)};
    std::vector<Rank> inside{root};  // in the order of their depth
    std::vector<bool> reached(ranks, false);
    reached[static_cast<std::size_t>(root)] = true;
    // A rejected hop stays rejected, because capacities only shrink and the tree only grows.
    for (std::size_t most_uses = first_most_uses(); most_uses <= longest_path_ && inside.size() < ranks; ++most_uses)
      for (std::size_t at = 0; at < inside.size(); ++at)
        for (Rank next = 0; next < links_.ranks(); ++next) {
          const int hop = links_.hop(inside[at], next);
          if (hop < 0 || reached[static_cast<std::size_t>(next)]) continue;
          if (links_.hops()[static_cast<std::size_t>(hop)].uses.size() > most_uses || !take(hop, weight, inside))
            continue;
          tree.parent[static_cast<std::size_t>(next)] = inside[at];
          reached[static_cast<std::size_t>(next)] = true;
          inside.push_back(next);
        }
    if (inside.size() < ranks) return std::nullopt;
    return tree;
  }

  bool fits(const std::vector<Use>& uses, Amount weight) const {
    return std::all_of(uses.begin(), uses.end(), [&](const Use& use) {
      return residual_[static_cast<std::size_t>(use.capacity)] >= weight * use.times;
    });
  }

  std::size_t first_most_uses() const { return effort_.preference == HopPreference::shallow ? longest_path_ : 1; }

  bool take(int hop, Amount weight, const std::vector<Rank>& inside) {
    const auto uses = uses_of(hop);
    if (!fits(uses, weight)) return false;
    for (const Use& use : uses) residual_[static_cast<std::size_t>(use.capacity)] -= weight * use.times;
    std::vector<Rank> grown = inside;
    grown.push_back(links_.hops()[static_cast<std::size_t>(hop)].dst);
    if (completable(grown, weight)) return true;
    for (const Use& use : uses) residual_[static_cast<std::size_t>(use.capacity)] += weight * use.times;
    return false;
  }
};

// Edmonds, Frank: every rank must get, in a maximum flow, everything that the roots and the unfinished tree offer.
class OutTrees : public Packer {
 public:
  OutTrees(const Links& links, const std::vector<Amount>& demands, Amount scale, Effort effort)
      : Packer(links, demands, scale, effort), flows_(links.nodes() + 2, arcs(links), links.nodes(), links.ranks()) {}

 private:
  // Super source -> roots; super source -> one node for the unfinished tree -> the tree's ranks.
  static std::vector<Arc> arcs(const Links& links) {
    std::vector<Arc> all;
    for (const Edge& edge : links.edges()) all.push_back({edge.first, edge.second});
    const int source = links.nodes();
    for (Rank rank = 0; rank < links.ranks(); ++rank) all.push_back({source, rank});
    for (Rank rank = 0; rank < links.ranks(); ++rank) all.push_back({source + 1, rank});
    all.push_back({source, source + 1});
    return all;
  }

  bool completable(const std::vector<Rank>& unfinished, Amount weight) override {
    const std::size_t edges = residual_.size();
    const auto ranks = static_cast<std::size_t>(links_.ranks());
    const Amount offered = std::accumulate(demands_.begin(), demands_.end(), weight);
    for (std::size_t edge = 0; edge < edges; ++edge) flows_.set_capacity(edge, residual_[edge]);
    std::vector<Amount> of_tree(ranks, 0);
    for (const Rank rank : unfinished) of_tree[static_cast<std::size_t>(rank)] = weight;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      flows_.set_capacity(edges + rank, demands_[rank]);
      flows_.set_capacity(edges + ranks + rank, of_tree[rank]);
    }
    flows_.set_capacity(edges + 2 * ranks, weight);
    if (!flows_.reaches(hardest_, offered)) return false;
    for (Rank rank = 0; rank < links_.ranks(); ++rank) {
      if (flows_.reaches(rank, offered)) continue;
      hardest_ = rank;
      return false;
    }
    return true;
  }

  std::vector<Use> uses_of(int hop) const override { return links_.hops()[static_cast<std::size_t>(hop)].uses; }
  Rank root_for(std::size_t demand) const override { return static_cast<Rank>(demand); }

  KeptFlows flows_;
  Rank hardest_ = 0;  // that failed last: the next hop may fail there, too
};

// Tutte, Nash-Williams, with the unfinished tree contracted: for every partition, half of what leaves its sets must
// cover the demand (number of sets - 1) times, and the weight once for every set without a rank of the tree.
class BothWays : public Packer {
 public:
  BothWays(const Links& links, Amount demand, Amount scale, Effort effort)
      : Packer(links, {demand}, scale, effort), partitions_(links) {}

 private:
  bool completable(const std::vector<Rank>& unfinished, Amount weight) override {
    const Amount rest = 2 * demands_.front();
    return partitions_.run({residual_, rest, 2 * weight, unfinished}).cost >=
           -rest - (unfinished.empty() ? 2 * weight : 0);
  }

  std::vector<Use> uses_of(int hop) const override {
    const Hop& there = links_.hops()[static_cast<std::size_t>(hop)];
    return merged(there.uses, links_.hops()[static_cast<std::size_t>(links_.hop(there.dst, there.src))].uses);
  }

  // The rank with the most residual capacity: trees become broad there, and the load rotates.
  Rank root_for(std::size_t) const override {
    std::vector<Amount> left(static_cast<std::size_t>(links_.nodes()), 0);
    for (std::size_t edge = 0; edge < residual_.size(); ++edge)
      left[static_cast<std::size_t>(links_.edges()[edge].first)] += residual_[edge];
    return static_cast<Rank>(std::max_element(left.begin(), left.begin() + links_.ranks()) - left.begin());
  }

  CheapestPartition partitions_;
};

template <typename Attempt>
std::optional<std::vector<WholeTree>> first_success(Amount most, Attempt&& attempt) {
  for (Amount heaviest = most; heaviest > 0; heaviest /= 2)
    for (const HopPreference preference : {HopPreference::shallow, HopPreference::short_path})
      if (auto trees = attempt({preference, heaviest})) return trees;
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<WholeTree>> pack_whole(const Links& links, const std::vector<Amount>& demand_by_root,
                                                 Amount scale, Amount heaviest) {
  if (links.has_shared_sets()) return std::nullopt;
  return first_success(std::min(heaviest, *std::max_element(demand_by_root.begin(), demand_by_root.end())),
                       [&](Effort effort) { return OutTrees(links, demand_by_root, scale, effort).run(); });
}

std::optional<std::vector<WholeTree>> pack_whole_both_ways(const Links& links, Amount demand, Amount scale) {
  if (links.has_shared_sets() || !links.symmetric()) return std::nullopt;
  return first_success(demand, [&](Effort effort) { return BothWays(links, demand, scale, effort).run(); });
}

}  // namespace sccl::treegen
