// The linear program of a packing: which weights of which trees reach the best rate, trees found as they pay.
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "treegen/cheapest_tree.h"
#include "treegen/links.h"
#include "treegen/simplex.h"

namespace sccl::treegen {

// One way of a share of the data: reduced along `in` towards its root, then copied along `out` from there.
// A tree without parents is absent.
struct Route {
  Tree in;
  Tree out;

  bool reduces() const { return !in.parent.empty(); }
  bool copies() const { return !out.parent.empty(); }
  Rank root() const { return copies() ? out.root : in.root; }
  int depth() const { return (reduces() ? treegen::depth(in) : 0) + (copies() ? treegen::depth(out) : 0); }
  auto operator<=>(const Route&) const = default;
};

std::vector<Use> uses(const Links& links, const Route& route);

struct WeightedRoute {
  Route route;
  Rational weight;  // in capacity units
};

enum class RouteKind {
  out,         // copied from the root
  in_and_out,  // reduced to a root of its own, then copied from there
};

class TreeProgram {
 public:
  // `limit_by_root` bounds what each root may send, in capacity units; empty: nothing does. Routes start at roots with
  // a positive limit only.
  TreeProgram(const Links& links, RouteKind kind, std::vector<Rational> limit_by_root);

  // Maximises the sum of weights; ends early when `target` is reached. Returns the value.
  double maximise(double target);
  double maximise() { return maximise(std::numeric_limits<double>::infinity()); }

  // What maximise() ended with, exactly. Nothing when exact numbers are too large.
  std::optional<std::vector<WeightedRoute>> exact() const;

  int candidates() const { return static_cast<int>(routes_.size()); }

 private:
  int add(const Route& route);
  int generate(const std::vector<double>& prices);
  int generate_out(const std::vector<double>& prices);
  int generate_both_ways(const std::vector<double>& prices);
  int generate_in_and_out(const std::vector<double>& prices);
  void add_shallow_routes();
  bool may_root(Rank rank) const;
  double root_price(Rank rank, const std::vector<double>& prices) const;
  // An undirected tree, rooted where it is shallowest, as a route both ways.
  Route both_ways(const Tree& tree) const;

  const Links& links_;
  Links reversed_;
  RouteKind kind_;
  bool symmetric_;
  std::vector<Rational> limits_;  // of capacities, then of roots
  std::vector<bool> may_root_;
  PackingProgram program_;
  CheapestTree out_search_;
  CheapestTree in_search_;
  std::map<Route, int> column_of_;
  std::vector<Route> routes_;  // by column
};

}  // namespace sccl::treegen
