// Weighted trees that reach the best rate of a collective on given links.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "treegen/graph/bounds.h"
#include "treegen/packing/mwu.h"
#include "treegen/packing/tree_program.h"

namespace sccl::treegen {

enum class TreeWeights {
  any,   // fewest trees
  unit,  // every tree has the weight of one lane (Blink's figures), where the rate is whole
};

struct PackOptions {
  CapacityUnit capacity_unit = CapacityUnit::lanes;
  TreeWeights weights = TreeWeights::any;
};

// Why `optimum` cannot be exceeded. Shared sets, and capacities that differ by direction, can keep packings below every
// cut; the linear program over all trees then says how far.
enum class Proof {
  cut,
  linear_program,
  none,  // numbers too large for exact arithmetic: `optimum` is the cut, `rate` within a millionth of the program's
};

// All rates and weights are in lanes.
struct Packing {
  Collective collective = Collective::broadcast;
  Rank root = 0;     // of rooted collectives
  Rational rate;     // of the whole buffer; AllGather, ReduceScatter: of each rank's block
  Rational optimum;  // no packing on these links exceeds it
  Proof proof = Proof::cut;
  Bound bound;  // the cut or partition; it lies above `optimum` unless it is the proof
  std::vector<WeightedRoute> routes;
  int candidates = 0;   // trees looked at
  int least_trees = 0;  // of broadcast and reduce: what every optimal packing needs
  bool fewest_proved = false;
  bool least_depth_proved = false;

  int depth() const;
};

// Broadcast, Reduce, AllReduce, AllGather, ReduceScatter. Throws invalid_argument for another collective, fewer than
// two ranks, a root that is no rank, and ranks that cannot be reached, naming them.
Packing pack(const Topology& topology, Collective collective, Rank root, const PackOptions& options = {});

// Throws internal_error when a capacity is exceeded, a tree does not span, a root or a sum of weights is wrong. Every
// packing that pack() returns has passed.
void check(const Links& links, const Packing& packing);

}  // namespace sccl::treegen
