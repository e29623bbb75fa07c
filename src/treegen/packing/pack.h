// Weighted trees that reach the best rate of a collective on given links.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "treegen/graph/bounds.h"
#include "treegen/packing/fewest.h"
#include "treegen/packing/mwu.h"
#include "treegen/packing/tree_program.h"

namespace sccl::treegen {

enum class TreeWeights {
  any,   // fewest trees
  unit,  // every tree has the weight of one lane (Blink's figures), if the rate is whole
};

struct PackOptions {
  CapacityUnit capacity_unit = CapacityUnit::lanes;
  TreeWeights weights = TreeWeights::any;
  LeastNumber least_number = LeastNumber::always;
};

// Why `optimum` cannot be exceeded. With shared sets, or capacities that differ by direction, packings may stay below
// every cut; then the linear program over all trees gives the optimum.
enum class Proof {
  cut,
  linear_program,
  none,  // numbers too large for exact arithmetic: `optimum` is the cut, `rate` is within a millionth of the program's
};

// All rates and weights are in lanes.
struct Packing {
  Collective collective = Collective::broadcast;
  Rank root = 0;     // for rooted collectives
  Rational rate;     // for the whole buffer; AllGather, ReduceScatter: for each rank's block
  Rational optimum;  // no packing on these links exceeds it
  Proof proof = Proof::cut;
  Bound bound;  // the cut or partition; it is above `optimum` unless it is the proof
  std::vector<WeightedRoute> routes;
  int candidates = 0;   // trees examined
  int least_trees = 0;  // for broadcast and reduce: no optimal packing has fewer trees
  bool fewest_proved = false;
  bool least_depth_proved = false;

  int depth() const;
};

// Throws invalid_argument for a collective that pack() does not serve.
void require_packed(Collective collective);

// Broadcast, Reduce, AllReduce, AllGather, ReduceScatter. Throws invalid_argument for another collective, fewer than
// two ranks, a root that is no rank, and unreachable ranks, naming them.
Packing pack(const Topology& topology, Collective collective, Rank root, const PackOptions& options = {});

// Throws internal_error when a capacity is exceeded, a tree does not span, or a root or a sum of weights is wrong.
// Every packing that pack() returns has passed this check.
void check(const Links& links, const Packing& packing);

}  // namespace sccl::treegen
