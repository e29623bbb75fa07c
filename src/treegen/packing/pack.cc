// Three ways to a packing, tried in order: shallowest trees alone, if they suffice (one-hop trees behind a switch,
// Blink 3.5); whole numbers with cuts as the oracle (integral.h); the linear program (tree_program.h).
#include "treegen/packing/pack.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"

namespace sccl::treegen {
namespace {

Rational total(const std::vector<WeightedRoute>& routes) {
  return std::accumulate(routes.begin(), routes.end(), Rational(0),
                         [](const Rational& sum, const WeightedRoute& route) { return sum + route.weight; });
}

std::vector<WeightedRoute> out_routes(const std::vector<WholeTree>& trees, Amount scale) {
  std::vector<WeightedRoute> routes;
  for (const WholeTree& tree : trees) routes.push_back({{{}, tree.tree}, Rational(tree.weight, scale)});
  return routes;
}

// In capacity units; pack() converts them to lanes.
void take_program(TreeProgram& program, double target, Packing& packing) {
  program.maximise(target, TreeProgram::Trees::any);
  auto exact = program.exact();
  packing.proof = exact ? Proof::linear_program : Proof::none;
  packing.routes = exact ? std::move(*exact) : program.rounded();
  packing.candidates = program.candidates();
}

// After rounding of weights some roots may have a higher rate; the slowest root determines the rate, which is returned.
// What another root has more is taken off its trees, the last ones first. Scaling its weights instead would give every
// root denominators of its own, and sums over all of them leave 64 bits.
Rational level_roots(int ranks, std::vector<WeightedRoute>& routes) {
  std::vector<Rational> by_root(static_cast<std::size_t>(ranks), 0);
  const auto of = [&](const WeightedRoute& route) -> Rational& {
    return by_root[static_cast<std::size_t>(route.route.root())];
  };
  for (const WeightedRoute& route : routes) of(route) += route.weight;
  const Rational rate = *std::min_element(by_root.begin(), by_root.end());
  for (auto route = routes.rbegin(); route != routes.rend(); ++route) {
    const Rational more = std::min(route->weight, of(*route) - rate);
    route->weight -= more;
    of(*route) -= more;
  }
  std::erase_if(routes, [](const WeightedRoute& route) { return route.weight == 0; });
  return rate;
}

// True when the shallowest trees alone reach the bound.
bool take_shallow(const Links& links, Goal goal, Packing& packing) {
  TreeProgram program(links, goal);
  const double target = to_double(packing.bound.rate);
  if (program.maximise(target, TreeProgram::Trees::shallow) < target - PackingProgram::kTolerance) return false;
  auto exact = program.exact();
  if (!exact) return false;
  const Rational wanted = packing.bound.rate * (goal == Goal::from_all ? links.ranks() : 1);
  if (total(*exact) != wanted) return false;
  packing.routes = std::move(*exact);
  packing.candidates = program.candidates();
  return true;
}

void pack_from_root(const Links& links, Rank root, const PackOptions& options, Packing& packing) {
  packing.bound = broadcast_bound(links, root);
  const Amount rate = packing.bound.rate.numerator();  // a whole number (Edmonds)
  std::optional<FewestTrees> fewest;
  if (options.weights == TreeWeights::any) {
    fewest = fewest_trees(links, root, rate, options.least_number);
  } else if (auto trees = unit_trees(links, root, rate)) {
    fewest = FewestTrees{std::move(*trees), static_cast<std::size_t>(rate), static_cast<int>(rate), false, false};
  }
  if (!fewest) {
    TreeProgram program(links, Goal::from_root, root);
    take_program(program, to_double(packing.bound.rate), packing);
    packing.rate = total(packing.routes);
    return;
  }
  packing.routes = out_routes(fewest->trees, 1);
  packing.candidates = static_cast<int>(fewest->listed);
  packing.least_trees = fewest->least;
  packing.fewest_proved = fewest->fewest_proved;
  packing.least_depth_proved = fewest->least_depth_proved;
  packing.rate = total(packing.routes);
}

void pack_from_all(const Links& links, Packing& packing) {
  packing.bound = all_gather_bound(links);
  if (!take_shallow(links, Goal::from_all, packing)) {
    const std::vector<Amount> demands(static_cast<std::size_t>(links.ranks()), packing.bound.rate.numerator());
    if (auto trees = pack_whole(links, demands, packing.bound.rate.denominator())) {
      packing.routes = out_routes(*trees, packing.bound.rate.denominator());
      packing.candidates = static_cast<int>(trees->size());
    } else {
      TreeProgram program(links, Goal::from_all);
      take_program(program, to_double(packing.bound.rate), packing);
    }
  }
  packing.rate = level_roots(links.ranks(), packing.routes);
}

void pack_both_ways(const Links& links, Packing& packing) {
  packing.bound = all_reduce_bound(links);
  if (!take_shallow(links, Goal::both_ways, packing)) {
    const Rational& rate = packing.bound.rate;
    if (const auto trees = pack_whole_both_ways(links, rate.numerator(), rate.denominator())) {
      for (const WholeTree& tree : *trees) {
        const Tree centred = rerooted_at_centre(tree.tree);
        packing.routes.push_back({{centred, centred}, Rational(tree.weight, rate.denominator())});
      }
      packing.candidates = static_cast<int>(trees->size());
    } else {
      TreeProgram program(links, Goal::both_ways);
      take_program(program, to_double(rate), packing);
    }
  }
  packing.rate = total(packing.routes);
}

// Merges trees of equal shape; heavier trees come first.
std::vector<WeightedRoute> tidy(const std::vector<WeightedRoute>& routes) {
  std::map<Route, Rational> weight_of;
  for (const WeightedRoute& route : routes) weight_of[route.route] += route.weight;
  std::vector<WeightedRoute> result;
  for (const auto& [route, weight] : weight_of) result.push_back({route, weight});
  std::stable_sort(result.begin(), result.end(),
                   [](const WeightedRoute& a, const WeightedRoute& b) { return a.weight > b.weight; });
  return result;
}

bool spans(const Links& links, const Tree& tree) {
  if (tree.parent.size() != static_cast<std::size_t>(links.ranks())) return false;
  for (Rank rank = 0; rank < links.ranks(); ++rank) {
    int steps = 0;
    Rank at = rank;
    while (at != tree.root && steps++ < links.ranks()) {
      const Rank parent = tree.parent[static_cast<std::size_t>(at)];
      if (parent < 0 || links.hop(parent, at) < 0) return false;
      at = parent;
    }
    if (at != tree.root) return false;
  }
  return tree.parent[static_cast<std::size_t>(tree.root)] < 0;
}

bool wants_in_trees(Collective collective) {
  return collective == Collective::reduce || collective == Collective::reducescatter;
}

}  // namespace

int Packing::depth() const {
  int most = 0;
  for (const WeightedRoute& route : routes) most = std::max(most, route.route.depth());
  return most;
}

void require_packed(Collective collective) {
  constexpr Collective kPacked[] = {Collective::broadcast, Collective::reduce, Collective::allreduce,
                                    Collective::allgather, Collective::reducescatter};
  if (std::count(std::begin(kPacked), std::end(kPacked), collective) == 0)
    fail(ErrorCode::invalid_argument,
         "trees are not packed for {}: use broadcast, reduce, allreduce, allgather or reducescatter",
         info(collective).name);
}

Packing pack(const Topology& topology, Collective collective, Rank root, const PackOptions& options) {
  const Links forward(topology, options.capacity_unit);
  if (topology.ranks < 2)
    fail(ErrorCode::invalid_argument, "topology '{}' has one rank and nothing to pack: give at least two",
         topology.name);
  // Data reduced towards a root takes the paths that data copied from the root would take on reversed links.
  const Links links = wants_in_trees(collective) ? forward.reversed() : forward;
  Packing packing;
  packing.collective = collective;
  packing.root = info(collective).rooted ? root : 0;
  switch (collective) {
    case Collective::broadcast:
    case Collective::reduce:
      pack_from_root(links, root, options, packing);
      break;
    case Collective::allgather:
    case Collective::reducescatter:
      pack_from_all(links, packing);
      break;
    case Collective::allreduce:
      pack_both_ways(links, packing);
      break;
    default:
      require_packed(collective);
  }
  if (packing.rate == packing.bound.rate) packing.proof = Proof::cut;
  packing.optimum = packing.proof == Proof::linear_program ? packing.rate : packing.bound.rate;
  for (WeightedRoute& route : packing.routes) {
    if (wants_in_trees(collective)) std::swap(route.route.in, route.route.out);
    route.weight /= forward.units_per_lane();
  }
  packing.routes = tidy(packing.routes);
  packing.rate /= forward.units_per_lane();
  packing.optimum /= forward.units_per_lane();
  packing.bound.rate /= forward.units_per_lane();
  check(forward, packing);
  return packing;
}

void check(const Links& links, const Packing& packing) {
  const auto wrong = [&](const std::string& what) {
    fail(ErrorCode::internal_error, "packing of {}: {}", info(packing.collective).name, what);
  };
  const Links reversed = links.reversed();
  std::vector<Rational> load(links.capacities().size(), 0);
  std::map<Rank, Rational> by_root;
  for (const auto& [route, weight] : packing.routes) {
    const bool reduces = packing.collective != Collective::broadcast && packing.collective != Collective::allgather;
    const bool copies = packing.collective != Collective::reduce && packing.collective != Collective::reducescatter;
    if (weight <= 0) wrong("a weight is not positive");
    if (route.reduces() != reduces || route.copies() != copies) wrong("a route has trees of the wrong direction");
    if ((copies && !spans(links, route.out)) || (reduces && !spans(reversed, route.in)))
      wrong(fmt::format("a tree with root {} does not span the ranks", route.root()));
    if (reduces && copies && route.in.root != route.out.root)
      wrong("an in-tree ends where its out-tree does not begin");
    by_root[route.root()] += weight;
    for (const Use& use : uses(links, reversed, route))
      load[static_cast<std::size_t>(use.capacity)] += weight * use.times * links.units_per_lane();
  }
  for (std::size_t index = 0; index < load.size(); ++index)
    if (load[index] > links.capacities()[index].amount) {
      const Edge& edge = links.capacities()[index].edges.front();
      wrong(fmt::format("link {}->{} carries {} of {}", edge.first, edge.second, to_text(load[index]),
                        links.capacities()[index].amount));
    }
  if (packing.collective == Collective::allgather || packing.collective == Collective::reducescatter) {
    for (Rank rank = 0; rank < links.ranks(); ++rank)
      if (by_root[rank] != packing.rate)
        wrong(fmt::format("rank {} gets {} instead of {}", rank, to_text(by_root[rank]), to_text(packing.rate)));
    return;
  }
  if (info(packing.collective).rooted && (by_root.size() != 1 || !by_root.contains(packing.root)))
    wrong(fmt::format("not all trees have root {}", packing.root));
  if (total(packing.routes) != packing.rate) wrong("the weights do not sum up to the rate");
}

}  // namespace sccl::treegen
