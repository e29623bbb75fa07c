// Blink 3.2: out-trees packed approximately by multiplicative weights.
#pragma once

#include "treegen/graph/links.h"

namespace sccl::treegen {

struct MwuOptions {
  double epsilon = 0.05;
  int most_iterations = 200000;
};

struct MwuPacking {
  double epsilon = 0;
  int iterations = 0;
  double rate = 0;              // in lanes, scaled so that the most loaded link is just full
  double bound = 0;             // no packing exceeds this value: the final prices prove it
  std::vector<Tree> trees;      // the candidates, distinct
  std::vector<double> weights;  // in lanes, by tree
};

// rate >= (1 - epsilon) * optimum: iterations end when the prices prove this. Throws invalid_argument when the root is
// no rank or does not reach all ranks, or epsilon is not between 0 and 1.
MwuPacking pack_by_weights(const Links& links, Rank root, const MwuOptions& options);

}  // namespace sccl::treegen
