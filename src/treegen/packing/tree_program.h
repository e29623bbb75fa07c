// The linear program of a packing: which weights of which trees reach the best rate; trees are generated when they pay.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "treegen/graph/cheapest_tree.h"
#include "treegen/graph/links.h"
#include "treegen/math/simplex.h"

namespace sccl::treegen {

// The route of a share of the data: reduced along `in` towards its root, then copied along `out` from there. A tree
// without parents is absent.
struct Route {
  Tree in;
  Tree out;

  bool reduces() const { return !in.parent.empty(); }
  bool copies() const { return !out.parent.empty(); }
  Rank root() const { return copies() ? out.root : in.root; }
  int depth() const { return (reduces() ? treegen::depth(in) : 0) + (copies() ? treegen::depth(out) : 0); }
  auto operator<=>(const Route&) const = default;
};

// `reversed` is links.reversed(): in-trees of the links are out-trees of `reversed`.
std::vector<Use> uses(const Links& links, const Links& reversed, const Route& route);

struct WeightedRoute {
  Route route;
  Rational weight;  // in capacity units
};

enum class Goal {
  from_root,  // most data from one root to all
  from_all,   // the same, largest rate from every rank to all
  both_ways,  // most data reduced to some root and copied from there; roots are free
};

class TreeProgram {
 public:
  // `root` is used by from_root only.
  TreeProgram(const Links& links, Goal goal, Rank root = 0);

  enum class Trees { shallow, any };
  // Maximises the rate (per root, for from_all); stops early when `target` is reached. Returns the rate, optimal or
  // very near to optimal if `any` trees may be used.
  double maximise(double target, Trees trees);

  // The result of maximise(), exact; nothing when exact numbers are too large.
  std::optional<std::vector<WeightedRoute>> exact() const;
  // The result rounded down to multiples of a millionth, so that no capacity is exceeded.
  std::vector<WeightedRoute> rounded() const;

  int candidates() const { return static_cast<int>(route_of_.size()); }

 private:
  int add(const Route& route);
  int generate(const std::vector<double>& prices);
  int generate_out(const std::vector<double>& prices);
  int generate_symmetric(const std::vector<double>& prices);
  int generate_in_and_out(const std::vector<double>& prices);
  void add_shallow_routes();
  std::vector<Rank> roots() const;
  int row_of_root(Rank rank) const { return static_cast<int>(links_.capacities().size()) + rank; }
  // An undirected tree, rooted where it is shallowest, as a route in both directions.
  Route symmetric_route(const Tree& tree) const;

  const Links& links_;
  Links reversed_;
  Goal goal_;
  Rank root_;
  bool symmetric_;
  std::vector<Rational> limits_;  // of capacities, then (from_all) of rate - weights of a root
  PackingProgram program_;
  CheapestTree out_search_;
  CheapestTree in_search_;
  int rate_column_ = -1;  // from_all
  std::set<Route> known_;
  std::map<int, Route> route_of_;  // by column
};

}  // namespace sccl::treegen
