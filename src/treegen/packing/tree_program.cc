// Column generation: prices of capacities determine which tree would gain most; a cheapest arborescence finds that
// tree. The first columns are the shallowest trees. If they reach the target alone (one-hop trees behind a switch), no
// other trees are searched.
#include "treegen/packing/tree_program.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "treegen/packing/exact.h"

namespace sccl::treegen {
namespace {

std::vector<Rational> limits_of(const Links& links, Goal goal) {
  std::vector<Rational> limits;
  for (const Capacity& capacity : links.capacities()) limits.emplace_back(capacity.amount);
  if (goal == Goal::from_all) limits.resize(limits.size() + static_cast<std::size_t>(links.ranks()), 0);
  return limits;
}

std::vector<double> as_doubles(const std::vector<Rational>& values) {
  std::vector<double> result;
  for (const Rational& value : values) result.push_back(to_double(value));
  return result;
}

// Breadth first: every rank at its least depth; children go to the parent with the fewest children.
Tree shallowest(const Links& links, Rank root) {
  Tree tree{root, std::vector<Rank>(static_cast<std::size_t>(links.ranks()), -1)};
  std::vector<int> depths(tree.parent.size(), -1);
  std::vector<int> children(tree.parent.size(), 0);
  depths[static_cast<std::size_t>(root)] = 0;
  for (int level = 1; level < links.ranks(); ++level)
    for (Rank rank = 0; rank < links.ranks(); ++rank) {
      if (depths[static_cast<std::size_t>(rank)] >= 0) continue;
      Rank best = -1;
      for (Rank parent = 0; parent < links.ranks(); ++parent)
        if (depths[static_cast<std::size_t>(parent)] == level - 1 && links.hop(parent, rank) >= 0 &&
            (best < 0 || children[static_cast<std::size_t>(parent)] < children[static_cast<std::size_t>(best)]))
          best = parent;
      if (best < 0) continue;
      tree.parent[static_cast<std::size_t>(rank)] = best;
      ++children[static_cast<std::size_t>(best)];
      depths[static_cast<std::size_t>(rank)] = level;
    }
  return tree;
}

}  // namespace

std::vector<Use> uses(const Links& links, const Links& reversed, const Route& route) {
  std::vector<Use> result;
  if (route.copies()) result = links.uses(route.out);
  if (route.reduces()) result = merged(std::move(result), reversed.uses(route.in));
  return result;
}

TreeProgram::TreeProgram(const Links& links, Goal goal, Rank root)
    : links_(links),
      reversed_(links.reversed()),
      goal_(goal),
      root_(root),
      symmetric_(links.symmetric()),
      limits_(limits_of(links, goal)),
      program_(as_doubles(limits_)),
      out_search_(links_),
      in_search_(reversed_) {
  if (goal_ == Goal::from_all) {
    Column rate;
    for (Rank rank = 0; rank < links_.ranks(); ++rank) rate.entries.emplace_back(row_of_root(rank), 1);
    rate_column_ = program_.add(std::move(rate));
  }
  add_shallow_routes();
}

std::vector<Rank> TreeProgram::roots() const {
  if (goal_ == Goal::from_root) return {root_};
  std::vector<Rank> all(static_cast<std::size_t>(links_.ranks()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

void TreeProgram::add_shallow_routes() {
  for (const Rank root : roots()) {
    const Tree out = shallowest(links_, root);
    if (goal_ != Goal::both_ways)
      add({{}, out});
    else if (symmetric_)
      add({out, out});
    else
      add({shallowest(reversed_, root), out});
  }
}

int TreeProgram::add(const Route& route) {
  if (!known_.insert(route).second) return 0;
  Column column;
  for (const Use& use : uses(links_, reversed_, route)) column.entries.emplace_back(use.capacity, use.times);
  if (goal_ == Goal::from_all) {
    column.gain = 0;
    column.entries.emplace_back(row_of_root(route.root()), -1);
  }
  route_of_.emplace(program_.add(std::move(column)), route);
  return 1;
}

int TreeProgram::generate(const std::vector<double>& prices) {
  if (goal_ != Goal::both_ways) return generate_out(prices);
  return symmetric_ ? generate_symmetric(prices) : generate_in_and_out(prices);
}

int TreeProgram::generate_out(const std::vector<double>& prices) {
  const auto hop_prices = out_search_.hop_prices(prices);
  int added = 0;
  for (const Rank root : roots()) {
    const auto [tree, cost] = out_search_.run_hops(root, hop_prices);
    const double gain = goal_ == Goal::from_all ? prices[static_cast<std::size_t>(row_of_root(root))] : 1;
    if (gain - cost > PackingProgram::kTolerance) added += add({{}, tree});
  }
  return added;
}

// With equal capacities in both directions the best in-tree is the reversed best out-tree, and the root does not
// matter: a minimum spanning tree for the sums over both directions.
int TreeProgram::generate_symmetric(const std::vector<double>& prices) {
  const auto one_way = out_search_.hop_prices(prices);
  auto both = one_way;
  for (const Hop& hop : links_.hops())
    both[static_cast<std::size_t>(links_.hop(hop.src, hop.dst))] +=
        one_way[static_cast<std::size_t>(links_.hop(hop.dst, hop.src))];
  const auto [tree, cost] = out_search_.run_hops(0, both);
  return 1 - cost > PackingProgram::kTolerance ? add(symmetric_route(tree)) : 0;
}

int TreeProgram::generate_in_and_out(const std::vector<double>& prices) {
  const auto out_prices = out_search_.hop_prices(prices);
  const auto in_prices = in_search_.hop_prices(prices);
  int added = 0;
  for (const Rank root : roots()) {
    const auto out = out_search_.run_hops(root, out_prices);
    const auto in = in_search_.run_hops(root, in_prices);
    if (1 - out.cost - in.cost > PackingProgram::kTolerance) added += add({in.tree, out.tree});
  }
  return added;
}

Route TreeProgram::symmetric_route(const Tree& tree) const {
  const Tree best = rerooted_at_centre(tree);
  return {best, best};
}

double TreeProgram::maximise(double target, Trees trees) {
  if (trees == Trees::shallow)
    program_.maximise(target);
  else
    program_.maximise(target, [this](const std::vector<double>& prices) { return generate(prices); });
  return program_.value();
}

std::optional<std::vector<WeightedRoute>> TreeProgram::exact() const {
  const auto values = exact_values(program_, limits_);
  if (!values) return std::nullopt;
  std::vector<WeightedRoute> result;
  for (const BasicValue& value : *values)
    if (value.column != rate_column_ && value.value > 0) result.push_back({route_of_.at(value.column), value.value});
  return result;
}

std::vector<WeightedRoute> TreeProgram::rounded() const {
  constexpr std::int64_t kGrid = 1 << 20;
  constexpr double kRoundingError = 1e-9;
  std::vector<WeightedRoute> result;
  const auto solution = program_.solution();
  for (const auto& [column, route] : route_of_) {
    const double value = solution[static_cast<std::size_t>(column)];
    const auto whole = static_cast<std::int64_t>(std::floor((value - kRoundingError) * static_cast<double>(kGrid)));
    if (whole > 0) result.push_back({route, Rational(whole, kGrid)});
  }
  return result;
}

}  // namespace sccl::treegen
