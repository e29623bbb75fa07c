// Binomial trees over ranks relative to the root: the parent of relative rank r is r without its lowest set bit.
#include <bit>

#include "planners/planners.h"
#include "planners/route.h"

namespace sccl::planners {
namespace {

class Tree {
 public:
  Tree(int ranks, Rank root) : ranks_(ranks), root_(root) {
    while ((1 << depth_) < ranks) ++depth_;
  }

  Rank rank(int relative) const { return (relative + root_) % ranks_; }
  int parent(int relative) const { return relative & (relative - 1); }
  int depth() const { return depth_; }

  // On the way down the widest subtree is served first: an edge of span 2^k is used in step depth-1-k.
  int down_step(int relative) const { return depth_ - 1 - span_exponent(relative); }
  int up_step(int relative) const { return span_exponent(relative); }

 private:
  static int span_exponent(int relative) { return std::countr_zero(static_cast<unsigned>(relative)); }

  int ranks_;
  Rank root_;
  int depth_ = 0;
};

void broadcast_down(RouteBuilder& route, const Tree& tree, int ranks, int first_step) {
  for (int relative = 1; relative < ranks; ++relative)
    route.copy(0, tree.rank(tree.parent(relative)), tree.rank(relative), first_step + tree.down_step(relative));
}

void reduce_up(RouteBuilder& route, const Tree& tree, int ranks) {
  for (int relative = 1; relative < ranks; ++relative)
    route.reduce(0, tree.rank(relative), tree.rank(tree.parent(relative)), tree.up_step(relative));
}

// A subtree's root carries the chunks of all its members.
void gather_up(RouteBuilder& route, const Tree& tree, int ranks) {
  for (int relative = 1; relative < ranks; ++relative)
    for (int at = relative; at != 0; at = tree.parent(at))
      route.copy(tree.rank(relative), tree.rank(at), tree.rank(tree.parent(at)), tree.up_step(at));
}

void scatter_down(RouteBuilder& route, const Tree& tree, int ranks) {
  for (int relative = 1; relative < ranks; ++relative)
    for (int at = relative; at != 0; at = tree.parent(at))
      route.copy(tree.rank(relative), tree.rank(tree.parent(at)), tree.rank(at), tree.down_step(at));
}

}  // namespace

std::optional<Schedule> binomial(const Topology& topology, Collective collective, Rank root) {
  const int ranks = topology.ranks;
  const Tree tree(ranks, root);
  RouteBuilder route;
  int chunks_per_rank = 1;
  switch (collective) {
    case Collective::broadcast:
      broadcast_down(route, tree, ranks, 0);
      break;
    case Collective::reduce:
      reduce_up(route, tree, ranks);
      break;
    case Collective::allreduce:
      reduce_up(route, tree, ranks);
      broadcast_down(route, tree, ranks, tree.depth());
      break;
    case Collective::gather:
      gather_up(route, tree, ranks);
      break;
    case Collective::scatter:
      chunks_per_rank = ranks;
      scatter_down(route, tree, ranks);
      break;
    default:
      return std::nullopt;
  }
  return std::move(route).finish("binomial", collective, root, topology, chunks_per_rank);
}

}  // namespace sccl::planners
