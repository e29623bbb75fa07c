// Column generation: prices of capacities say which tree would pay most, a cheapest arborescence finds it. The first
// columns are the shallowest trees; when they reach the target alone (one-hop trees behind a switch), no others are
// looked for.
#include "treegen/tree_program.h"

#include <algorithm>

#include "treegen/exact.h"

namespace sccl::treegen {
namespace {

std::vector<Rational> limits_of(const Links& links, const std::vector<Rational>& limit_by_root) {
  std::vector<Rational> limits;
  for (const Capacity& capacity : links.capacities()) limits.emplace_back(capacity.amount);
  limits.insert(limits.end(), limit_by_root.begin(), limit_by_root.end());
  return limits;
}

std::vector<double> as_doubles(const std::vector<Rational>& values) {
  std::vector<double> result;
  for (const Rational& value : values) result.push_back(to_double(value));
  return result;
}

// Breadth first: every rank at its least depth, children spread over the parents that have fewest.
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

Tree rerooted(const Tree& tree, Rank root) {
  Tree result = tree;
  result.root = root;
  Rank child = -1;
  for (Rank at = root; at >= 0;) {
    const Rank parent = tree.parent[static_cast<std::size_t>(at)];
    result.parent[static_cast<std::size_t>(at)] = child;
    child = at;
    at = parent;
  }
  return result;
}

}  // namespace

std::vector<Use> uses(const Links& links, const Route& route) {
  std::vector<Use> result;
  if (route.copies()) result = links.uses(route.out);
  if (route.reduces()) result = merged(std::move(result), links.reversed().uses(route.in));
  return result;
}

TreeProgram::TreeProgram(const Links& links, RouteKind kind, std::vector<Rational> limit_by_root)
    : links_(links),
      reversed_(links.reversed()),
      kind_(kind),
      symmetric_(links.symmetric()),
      limits_(limits_of(links, limit_by_root)),
      program_(as_doubles(limits_)),
      out_search_(links_),
      in_search_(reversed_) {
  for (const Rational& limit : limit_by_root) may_root_.push_back(limit > 0);
  add_shallow_routes();
}

bool TreeProgram::may_root(Rank rank) const { return may_root_.empty() || may_root_[static_cast<std::size_t>(rank)]; }

double TreeProgram::root_price(Rank rank, const std::vector<double>& prices) const {
  return may_root_.empty() ? 0 : prices[links_.capacities().size() + static_cast<std::size_t>(rank)];
}

void TreeProgram::add_shallow_routes() {
  for (Rank root = 0; root < links_.ranks(); ++root) {
    if (!may_root(root)) continue;
    const Tree out = shallowest(links_, root);
    if (kind_ == RouteKind::out)
      add({{}, out});
    else if (symmetric_)
      add({out, out});
    else
      add({shallowest(reversed_, root), out});
  }
}

int TreeProgram::add(const Route& route) {
  if (column_of_.contains(route)) return 0;
  Column column;
  std::vector<Use> all;
  if (route.copies()) all = links_.uses(route.out);
  if (route.reduces()) all = merged(std::move(all), reversed_.uses(route.in));
  for (const Use& use : all) column.entries.emplace_back(use.capacity, use.times);
  if (!may_root_.empty())
    column.entries.emplace_back(static_cast<int>(links_.capacities().size()) + route.root(), 1);
  column_of_.emplace(route, program_.add(std::move(column)));
  routes_.push_back(route);
  return 1;
}

int TreeProgram::generate(const std::vector<double>& prices) {
  if (kind_ == RouteKind::out) return generate_out(prices);
  return symmetric_ && may_root_.empty() ? generate_both_ways(prices) : generate_in_and_out(prices);
}

int TreeProgram::generate_out(const std::vector<double>& prices) {
  const auto hop_prices = out_search_.hop_prices(prices);
  int added = 0;
  for (Rank root = 0; root < links_.ranks(); ++root) {
    if (!may_root(root)) continue;
    const auto [tree, cost] = out_search_.run_hops(root, hop_prices);
    if (cost + root_price(root, prices) < 1 - PackingProgram::kTolerance) added += add({{}, tree});
  }
  return added;
}

// With equal capacities both ways the best in-tree is the best out-tree turned round, and the root does not matter: a
// minimum spanning tree of the sums over both directions.
int TreeProgram::generate_both_ways(const std::vector<double>& prices) {
  auto hop_prices = out_search_.hop_prices(prices);
  const auto one_way = hop_prices;
  for (const Hop& hop : links_.hops())
    hop_prices[static_cast<std::size_t>(links_.hop(hop.src, hop.dst))] +=
        one_way[static_cast<std::size_t>(links_.hop(hop.dst, hop.src))];
  const auto [tree, cost] = out_search_.run_hops(0, hop_prices);
  return cost < 1 - PackingProgram::kTolerance ? add(both_ways(tree)) : 0;
}

int TreeProgram::generate_in_and_out(const std::vector<double>& prices) {
  const auto out_prices = out_search_.hop_prices(prices);
  const auto in_prices = in_search_.hop_prices(prices);
  int added = 0;
  for (Rank root = 0; root < links_.ranks(); ++root) {
    if (!may_root(root)) continue;
    const auto out = out_search_.run_hops(root, out_prices);
    const auto in = in_search_.run_hops(root, in_prices);
    if (out.cost + in.cost + root_price(root, prices) < 1 - PackingProgram::kTolerance) added += add({in.tree, out.tree});
  }
  return added;
}

Route TreeProgram::both_ways(const Tree& tree) const {
  Tree best = tree;
  for (Rank root = 0; root < links_.ranks(); ++root)
    if (Tree other = rerooted(tree, root); depth(other) < depth(best)) best = std::move(other);
  return {best, best};
}

double TreeProgram::maximise(double target) {
  program_.maximise(target, [this](const std::vector<double>& prices) { return generate(prices); });
  return program_.value();
}

std::optional<std::vector<WeightedRoute>> TreeProgram::exact() const {
  const auto values = exact_values(program_, limits_);
  if (!values) return std::nullopt;
  std::vector<WeightedRoute> result;
  for (const BasicValue& value : *values)
    if (value.value > 0) result.push_back({routes_[static_cast<std::size_t>(value.column)], value.value});
  std::sort(result.begin(), result.end(), [](const WeightedRoute& a, const WeightedRoute& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.route < b.route;
  });
  return result;
}

}  // namespace sccl::treegen
