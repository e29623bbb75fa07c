// Breadth-first trees: every chunk reaches its destinations over as few hops as possible. Serves every collective
// wherever paths join all ranks. The load of the links is not balanced.
#include <algorithm>
#include <deque>
#include <vector>

#include "planners/planners.h"
#include "planners/route.h"

namespace sccl::planners {
namespace {

using schedule::Step;

enum class Toward : std::uint8_t { leaves, root };

// Shortest paths between all ranks and the root.
struct Tree {
  std::vector<Rank> parent;  // by rank; -1 at the root
  std::vector<int> depth;
  std::vector<Rank> order;  // by depth, the root first

  int height() const { return depth[static_cast<std::size_t>(order.back())]; }
};

// Follows links in the direction of the data: away from the root, or towards the root. Nothing when a rank is out of
// reach.
std::optional<Tree> tree_of(topology::Routes& routes, int ranks, Rank root, Toward toward) {
  Tree tree{std::vector<Rank>(static_cast<std::size_t>(ranks), -1),
            std::vector<int>(static_cast<std::size_t>(ranks), -1),
            {root}};
  tree.depth[static_cast<std::size_t>(root)] = 0;
  for (std::size_t next = 0; next < tree.order.size(); ++next) {
    const Rank at = tree.order[next];
    for (Rank other = 0; other < ranks; ++other) {
      const auto place = static_cast<std::size_t>(other);
      if (tree.depth[place] >= 0 || other == at) continue;
      if (!(toward == Toward::leaves ? routes.connected(at, other) : routes.connected(other, at))) continue;
      tree.parent[place] = at;
      tree.depth[place] = tree.depth[static_cast<std::size_t>(at)] + 1;
      tree.order.push_back(other);
    }
  }
  if (static_cast<int>(tree.order.size()) != ranks) return std::nullopt;
  return tree;
}

class Shortest {
 public:
  explicit Shortest(const Topology& topology) : ranks_(topology.ranks), routes_(topology) {}

  // Builds the tree of every root. False when some rank is out of reach.
  bool prepare(Toward toward) {
    auto& trees = toward == Toward::leaves ? out_ : in_;
    for (Rank root = 0; root < ranks_; ++root) {
      auto tree = tree_of(routes_, ranks_, root, toward);
      if (!tree) return false;
      trees.push_back(*std::move(tree));
    }
    return true;
  }

  // Returns the first step that is free afterwards.
  Step gather_sums(RouteBuilder& route, int chunk, Rank root) const {
    const Tree& tree = in_[static_cast<std::size_t>(root)];
    for (auto rank = tree.order.rbegin(); *rank != root; ++rank)
      route.reduce(chunk, *rank, parent(tree, *rank), tree.height() - depth(tree, *rank));
    return tree.height();
  }

  void spread(RouteBuilder& route, int chunk, Rank root, Step first) const {
    const Tree& tree = out_[static_cast<std::size_t>(root)];
    for (const Rank rank : tree.order)
      if (rank != root) route.copy(chunk, parent(tree, rank), rank, first + depth(tree, rank) - 1);
  }

  void carry(RouteBuilder& route, int chunk, Rank from, Rank to) const {
    const Tree& tree = out_[static_cast<std::size_t>(from)];
    for (Rank at = to; at != from; at = parent(tree, at)) route.copy(chunk, parent(tree, at), at, depth(tree, at) - 1);
  }

 private:
  static Rank parent(const Tree& tree, Rank rank) { return tree.parent[static_cast<std::size_t>(rank)]; }
  static int depth(const Tree& tree, Rank rank) { return tree.depth[static_cast<std::size_t>(rank)]; }

  int ranks_;
  topology::Routes routes_;
  std::vector<Tree> out_;
  std::vector<Tree> in_;
};

bool sums(Collective collective) {
  return collective == Collective::allreduce || collective == Collective::reducescatter ||
         collective == Collective::reduce;
}

}  // namespace

std::optional<Schedule> shortest(const Topology& topology, Collective collective, Rank root) {
  const int ranks = topology.ranks;
  Shortest ways(topology);
  if (sums(collective) && !ways.prepare(Toward::root)) return std::nullopt;
  if ((!sums(collective) || collective == Collective::allreduce) && !ways.prepare(Toward::leaves)) return std::nullopt;
  RouteBuilder route;
  int chunks_per_rank = 1;
  switch (collective) {
    case Collective::allreduce:
      chunks_per_rank = ranks;
      for (Rank owner = 0; owner < ranks; ++owner)
        ways.spread(route, owner, owner, ways.gather_sums(route, owner, owner));
      break;
    case Collective::reducescatter:
      chunks_per_rank = ranks;
      for (Rank owner = 0; owner < ranks; ++owner) ways.gather_sums(route, owner, owner);
      break;
    case Collective::allgather:
      for (Rank owner = 0; owner < ranks; ++owner) ways.spread(route, owner, owner, 0);
      break;
    case Collective::broadcast:
      ways.spread(route, 0, root, 0);
      break;
    case Collective::reduce:
      ways.gather_sums(route, 0, root);
      break;
    case Collective::gather:
      for (Rank owner = 0; owner < ranks; ++owner) ways.carry(route, owner, owner, root);
      break;
    case Collective::scatter:
      chunks_per_rank = ranks;
      for (Rank owner = 0; owner < ranks; ++owner) ways.carry(route, owner, root, owner);
      break;
    case Collective::alltoall:
      chunks_per_rank = ranks;
      for (Rank target = 0; target < ranks; ++target)
        for (Rank source = 0; source < ranks; ++source) ways.carry(route, target * ranks + source, source, target);
      break;
    case Collective::sendrecv:
      return std::nullopt;
  }
  return std::move(route).finish("shortest", collective, root, topology, chunks_per_rank);
}

}  // namespace sccl::planners
