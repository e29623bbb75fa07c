#include "treegen/clusters/even_trees.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "schedule/edge_index.h"
#include "schedule/simulation/cost.h"
#include "treegen/math/power_of_e.h"

namespace sccl::treegen {
namespace {

constexpr double kSteepness = 20;       // of prices: a link that is idle costs e^-20 of what the busiest costs
constexpr int kPasses = 4;              // in which trees are found anew
constexpr double kDepthPrice = 0.05;    // of what the cheapest way to a rank costs, on average
constexpr int kMostSweeps = 8;          // over the ranks of a tree
constexpr double kMostOfOneTree = 0.5;  // of what keeps the busiest link busy
constexpr double kUsesForeseen[] = {4, 16};
constexpr double kFirstOnWay = 10;  // times the price of a way over switches that no other tree takes, besides
constexpr double kLess = 1 - 1e-9;
constexpr double kFar = std::numeric_limits<double>::infinity();

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// What passes an edge of a tree.
enum class Passes : std::uint8_t { sums, copies, both };

class EvenTrees {
 public:
  EvenTrees(const Topology& topology, Passes passes, Peers peers = Peers::few)
      : ranks_(topology.ranks), passes_(passes), first_on_way_(peers == Peers::few ? kFirstOnWay : 0) {
    const schedule::EdgeIndex edges(topology);
    for (schedule::EdgeId edge = 0; edge < edges.size(); ++edge) {
      valid_ = valid_ && edges[edge].gbytes_per_s > 0;
      us_per_byte_.push_back(valid_ ? schedule::lane_us_per_byte(edges[edge], topology) / edges[edge].lanes : 0);
    }
    for (std::size_t set = 0; valid_ && set < topology.shared.size(); ++set)
      us_per_byte_.push_back(1e-3 / (edges.set_lane_gbytes_per_s(static_cast<int>(set)) * topology.shared[set].lanes));
    busy_.assign(us_per_byte_.size(), 0);
    if (valid_) find_uses(topology, edges);
  }

  // Rooted at their centres.
  std::vector<Tree> find(int count) {
    return unless_one_is_to_blame([&] { return undirected(count); });
  }

  // Of one root. What the undirected trees cannot do: links that lead away from the root carry copies alone.
  std::vector<Tree> find(Rank root, int count) {
    return unless_one_is_to_blame([&] { return find(std::vector<Rank>(at(count), root)); });
  }

  // One for each of the roots.
  std::vector<Tree> find(const std::vector<Rank>& roots) {
    return find(roots, [this](Rank root, double steepness) { return directed(root, prices(steepness)); });
  }

 private:
  std::vector<Tree> undirected(int count) {
    return find(std::vector<Rank>(at(count), 0), [this](Rank, double steepness) {
      const Tree tree = spanning(0, prices(steepness));
      return valid_ ? rerooted_at_centre(tree) : tree;
    });
  }

  template <typename Make>
  std::vector<Tree> unless_one_is_to_blame(Make&& make) {
    std::vector<Tree> trees = make();
    for (const double uses : kUsesForeseen) {
      const double busiest_us = busiest();
      if (!valid_ || !one_tree_is_to_blame(trees, busiest_us)) break;
      uses_foreseen_ = uses;
      const std::vector<double> busy = std::exchange(busy_, std::vector<double>(busy_.size(), 0));
      std::fill(trees_on_.begin(), trees_on_.end(), 0);
      std::vector<Tree> others = make();
      if (busiest() < busiest_us)
        trees = std::move(others);
      else
        busy_ = busy;
    }
    return trees;
  }

  double busiest() const { return *std::max_element(busy_.begin(), busy_.end()); }

  // An idle link is cheap, however slow it is: a tree may use it many times, and is found like that again and again.
  bool one_tree_is_to_blame(const std::vector<Tree>& trees, double busiest_us) const {
    std::vector<double> of_tree(busy_.size());
    for (const Tree& tree : trees) {
      std::fill(of_tree.begin(), of_tree.end(), 0);
      for (Rank rank = 0; rank < ranks_; ++rank)
        if (rank != tree.root)
          for (const int use : uses_of(pair(tree.parent[at(rank)], rank))) of_tree[at(use)] += us_per_byte_[at(use)];
      if (*std::max_element(of_tree.begin(), of_tree.end()) > kMostOfOneTree * busiest_us) return true;
    }
    return false;
  }

  template <typename Cheapest>
  std::vector<Tree> find(const std::vector<Rank>& roots, Cheapest&& cheapest) {
    std::vector<Tree> trees;
    if (!valid_) return trees;
    for (const Rank root : roots) {
      trees.push_back(cheapest(root, trees.empty() ? 0 : kSteepness));
      if (!valid_) return {};
      take(trees.back(), 1);
    }
    for (int pass = 1; pass <= kPasses; ++pass)
      for (std::size_t i = 0; i < trees.size(); ++i) {
        take(trees[i], -1);
        trees[i] = cheapest(roots[i], kSteepness * pass);
        take(trees[i], 1);
      }
    return trees;
  }

  // What one byte of a tree's edge takes, from parent to child: the way of copies, of sums, or both.
  void find_uses(const Topology& topology, const schedule::EdgeIndex& edges) {
    topology::Routes routes(topology);
    over_switches_.assign(at(ranks_) * at(ranks_), false);
    trees_on_.assign(at(ranks_) * at(ranks_), 0);
    for (Rank parent = 0; parent < ranks_; ++parent)
      for (Rank child = 0; child < ranks_; ++child) {
        first_use_.push_back(uses_.size());
        const bool down = passes_ == Passes::sums || routes.connected(parent, child);
        const bool up = passes_ == Passes::copies || routes.connected(child, parent);
        if (parent == child || !down || !up) continue;
        const auto use = [&](Rank from, Rank to) {
          const auto path = routes.path(from, to);
          if (path.size() > 1) over_switches_[pair(parent, child)] = true;
          for (const Edge& ends : path) {
            const schedule::EdgeId edge = edges.find(ends);
            uses_.push_back(static_cast<int>(edge));
            for (const int set : edges.sets_of(edge)) uses_.push_back(static_cast<int>(edges.size()) + set);
          }
        };
        const auto [high, low] = std::pair(std::max(parent, child), std::min(parent, child));
        const bool from_high = passes_ == Passes::both || (passes_ == Passes::copies) == (parent == high);
        if (from_high) use(high, low);
        if (passes_ == Passes::both || !from_high) use(low, high);
      }
    first_use_.push_back(uses_.size());
  }

  std::span<const int> uses_of(std::size_t pair) const {
    return std::span(uses_).subspan(first_use_[pair], first_use_[pair + 1] - first_use_[pair]);
  }

  std::size_t pair(Rank parent, Rank child) const { return at(parent) * at(ranks_) + at(child); }

  void take(const Tree& tree, double times) {
    for (Rank rank = 0; rank < ranks_; ++rank)
      if (rank != tree.root) {
        const std::size_t edge = pair(tree.parent[at(rank)], rank);
        trees_on_[edge] += times;
        for (const int use : uses_of(edge)) busy_[at(use)] += times * us_per_byte_[at(use)];
      }
  }

  // By parent and child.
  std::vector<double> prices(double steepness) const {
    const double most = std::max(busiest(), 1e-30);
    std::vector<double> of_use;
    for (std::size_t use = 0; use < busy_.size(); ++use) {
      const double busy = std::min(most, busy_[use] + uses_foreseen_ * us_per_byte_[use]);
      of_use.push_back(us_per_byte_[use] * power_of_e(steepness * (busy / most - 1)));
    }
    std::vector<double> result(at(ranks_) * at(ranks_));
    for (Rank parent = 0; parent < ranks_; ++parent)
      for (Rank child = 0; child < ranks_; ++child) {
        double& sum = result[pair(parent, child)];
        if (passes_ == Passes::both && child < parent) {  // sums and copies pass the same links either way
          sum = result[pair(child, parent)];
          continue;
        }
        const std::span<const int> uses = uses_of(pair(parent, child));
        sum = uses.empty() ? kFar : 0;
        for (const int use : uses) sum += of_use[at(use)];
        if (over_switches_[pair(parent, child)]) sum *= 1 + first_on_way_ / (1 + trees_between(parent, child));
      }
    return result;
  }

  // Sums go the way of copies back.
  double trees_between(Rank parent, Rank child) const {
    return trees_on_[pair(parent, child)] + (passes_ == Passes::both ? trees_on_[pair(child, parent)] : 0);
  }

  // Grown from the root, each time by the cheapest edge (Prim). If edges cost the same both ways, no tree is cheaper.
  Tree spanning(Rank root, const std::vector<double>& prices) {
    Tree tree{root, std::vector<Rank>(at(ranks_), -1)};
    std::vector<double> distance(at(ranks_), kFar);
    std::vector<bool> inside(at(ranks_), false);
    Rank next = root;
    for (int known = 1; known < ranks_; ++known) {
      inside[at(next)] = true;
      const Rank last = next;
      next = -1;
      for (Rank rank = 0; rank < ranks_; ++rank) {
        if (inside[at(rank)]) continue;
        if (const double one = prices[pair(last, rank)]; one < distance[at(rank)]) {
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
    return tree;
  }

  // The same, and then each rank moves to the parent that is the cheapest one for it. Where prices differ little, the
  // parent nearer to the root.
  Tree directed(Rank root, const std::vector<double>& prices) {
    Tree tree = spanning(root, prices);
    if (!valid_) return tree;
    double step = 0;  // the price of being one rank farther from the root
    for (Rank rank = 0; rank < ranks_; ++rank) {
      double least = kFar;
      for (Rank parent = 0; parent < ranks_; ++parent) least = std::min(least, prices[pair(parent, rank)]);
      if (rank != root) step += kDepthPrice * least / ranks_;
    }
    for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
      bool moved = false;
      std::vector<int> depths = depth_by_rank(tree);
      for (Rank rank = 0; rank < ranks_; ++rank) {
        if (rank == root) continue;
        const auto price = [&](Rank parent) { return prices[pair(parent, rank)] + step * depths[at(parent)]; };
        Rank best = tree.parent[at(rank)];
        for (Rank parent = 0; parent < ranks_; ++parent)
          if (price(parent) < price(best) * kLess && !is_below(tree, parent, rank)) best = parent;
        if (best == tree.parent[at(rank)]) continue;
        tree.parent[at(rank)] = best;
        depths = depth_by_rank(tree);
        moved = true;
      }
      if (!moved) break;
    }
    return tree;
  }

  static bool is_below(const Tree& tree, Rank rank, Rank above) {
    while (rank != above && rank != tree.root) rank = tree.parent[at(rank)];
    return rank == above;
  }

  int ranks_;
  Passes passes_;
  double first_on_way_;  // kFirstOnWay or 0
  bool valid_ = true;
  double uses_foreseen_ = 0;            // by the tree that is found next, of each link
  std::vector<double> us_per_byte_;     // by link, then shared set
  std::vector<double> busy_;            // the same, with all trees
  std::vector<int> uses_;               // by parent and child; none where no ways join them
  std::vector<std::size_t> first_use_;  // by parent and child
  std::vector<bool> over_switches_;     // by parent and child
  std::vector<double> trees_on_;        // by parent and child: of the present trees
};

}  // namespace

double least_busiest_us_per_byte(const Topology& topology, Collective collective) {
  const double others = topology.ranks - 1;
  std::vector<double> in(at(topology.ranks), 0);
  std::vector<double> out(at(topology.ranks), 0);
  for (const topology::Link& link : topology.links) {
    if (link.dst < topology.ranks) in[at(link.dst)] += link.gbytes_per_s;
    if (link.src < topology.ranks) out[at(link.src)] += link.gbytes_per_s;
  }
  const auto us = [](double bytes, double gbytes_per_s) {
    return gbytes_per_s > 0 ? bytes / (gbytes_per_s * 1e3) : kFar;
  };
  // What every rank gets, and what every rank passes on, at least; and what all of them get together.
  const bool copies = collective == Collective::allgather;
  const bool sums = collective == Collective::reducescatter;
  const double enters = copies ? others : sums ? 1.0 / topology.ranks : 1;
  const double leaves = sums ? others / topology.ranks : 1;
  const double all = copies ? others * topology.ranks : sums ? others : 2 * others;
  double least = std::max(us(all, std::accumulate(in.begin(), in.end(), 0.0)),
                          us(all, std::accumulate(out.begin(), out.end(), 0.0)));
  for (std::size_t rank = 0; rank < in.size(); ++rank)
    least = std::max({least, us(enters, in[rank]), us(leaves, out[rank])});
  return least;
}

std::vector<Tree> even_trees(const Topology& topology, int count) {
  if (topology.ranks < 2) return {};
  return EvenTrees(topology, Passes::both).find(count);
}

std::vector<Tree> even_trees_of_ranks(const Topology& topology, Reading reading, int trees_of_rank, Peers peers) {
  if (topology.ranks < 2) return {};
  std::vector<Rank> roots;
  for (int i = 0; i < trees_of_rank * topology.ranks; ++i) roots.push_back(i % topology.ranks);
  return EvenTrees(topology, reading == Reading::copies ? Passes::copies : Passes::sums, peers).find(roots);
}

std::vector<Tree> even_trees_of_root(const Topology& topology, Reading reading, Rank root, int count) {
  if (topology.ranks < 2) return {};
  return EvenTrees(topology, reading == Reading::copies ? Passes::copies : Passes::sums).find(root, count);
}

}  // namespace sccl::treegen
