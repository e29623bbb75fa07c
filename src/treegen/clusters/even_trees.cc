#include "treegen/clusters/even_trees.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "schedule/edge_index.h"
#include "schedule/simulation/cost.h"

namespace sccl::treegen {
namespace {

constexpr double kSteepness = 20;  // of prices: a link that is idle costs e^-20 of what the busiest costs
constexpr int kPasses = 4;         // in which trees are found anew

std::size_t at(int index) { return static_cast<std::size_t>(index); }

class EvenTrees {
 public:
  explicit EvenTrees(const Topology& topology) : ranks_(topology.ranks) {
    const schedule::EdgeIndex edges(topology);
    for (schedule::EdgeId edge = 0; edge < edges.size(); ++edge) {
      valid_ = valid_ && edges[edge].gbytes_per_s > 0;
      us_per_byte_.push_back(valid_ ? schedule::lane_us_per_byte(edges[edge], topology) / edges[edge].lanes : 0);
    }
    for (std::size_t set = 0; valid_ && set < topology.shared.size(); ++set)
      us_per_byte_.push_back(1e-3 / (edges.set_lane_gbytes_per_s(static_cast<int>(set)) * topology.shared[set].lanes));
    busy_.assign(us_per_byte_.size(), 0);
    uses_.resize(at(ranks_) * at(ranks_));
    if (valid_) find_uses(topology, edges);
  }

  std::vector<Tree> find(int count) {
    std::vector<Tree> trees;
    if (!valid_) return trees;
    for (int i = 0; i < count; ++i) {
      trees.push_back(cheapest(trees.empty() ? 0 : kSteepness));
      if (!valid_) return {};
      take(trees.back(), 1);
    }
    for (int pass = 1; pass <= kPasses; ++pass)
      for (Tree& tree : trees) {
        take(tree, -1);
        tree = cheapest(kSteepness * pass);
        take(tree, 1);
      }
    return trees;
  }

 private:
  // What one byte of a tree's edge between two ranks takes: both ways, one for sums and one for copies.
  void find_uses(const Topology& topology, const schedule::EdgeIndex& edges) {
    topology::Routes routes(topology);
    for (Rank a = 0; a < ranks_; ++a)
      for (Rank b = 0; b < a; ++b) {
        if (!routes.connected(a, b) || !routes.connected(b, a)) continue;
        std::vector<int>& uses = uses_[pair(a, b)];
        for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)})
          for (const Edge& ends : routes.path(from, to)) {
            const schedule::EdgeId edge = edges.find(ends);
            uses.push_back(static_cast<int>(edge));
            for (const int set : edges.sets_of(edge)) uses.push_back(static_cast<int>(edges.size()) + set);
          }
      }
  }

  std::size_t pair(Rank a, Rank b) const { return at(std::max(a, b)) * at(ranks_) + at(std::min(a, b)); }

  void take(const Tree& tree, double times) {
    for (Rank rank = 0; rank < ranks_; ++rank)
      if (rank != tree.root)
        for (const int use : uses_[pair(rank, tree.parent[at(rank)])]) busy_[at(use)] += times * us_per_byte_[at(use)];
  }

  // Prim's minimum spanning tree.
  Tree cheapest(double steepness) {
    constexpr double kFar = std::numeric_limits<double>::infinity();
    const double most = std::max(*std::max_element(busy_.begin(), busy_.end()), 1e-30);
    std::vector<double> prices;
    for (std::size_t use = 0; use < busy_.size(); ++use)
      prices.push_back(us_per_byte_[use] * std::exp(steepness * (busy_[use] / most - 1)));
    const auto cost = [&](Rank a, Rank b) {
      const std::vector<int>& uses = uses_[pair(a, b)];
      double sum = uses.empty() ? kFar : 0;
      for (const int use : uses) sum += prices[at(use)];
      return sum;
    };
    Tree tree{0, std::vector<Rank>(at(ranks_), -1)};
    std::vector<double> distance(at(ranks_), kFar);
    std::vector<bool> inside(at(ranks_), false);
    Rank next = 0;
    for (int known = 1; known < ranks_; ++known) {
      inside[at(next)] = true;
      const Rank last = next;
      next = -1;
      for (Rank rank = 0; rank < ranks_; ++rank) {
        if (inside[at(rank)]) continue;
        if (const double one = cost(last, rank); one < distance[at(rank)]) {
          distance[at(rank)] = one;
          tree.parent[at(rank)] = last;
        }
        if (next < 0 || distance[at(rank)] < distance[at(next)]) next = rank;
      }
      if (distance[at(next)] == kFar) {
        valid_ = false;
        return tree;
      }
    }
    return rerooted_at_centre(tree);
  }

  int ranks_;
  bool valid_ = true;
  std::vector<double> us_per_byte_;     // by link, then shared set
  std::vector<double> busy_;            // the same, with all trees
  std::vector<std::vector<int>> uses_;  // by pair of ranks; none where no ways join them
};

}  // namespace

std::vector<Tree> even_trees(const Topology& topology, int count) {
  if (topology.ranks < 2) return {};
  return EvenTrees(topology).find(count);
}

}  // namespace sccl::treegen
