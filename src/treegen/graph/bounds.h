// What no packing can exceed, each with the cut or partition that proves it.
#pragma once

#include <vector>

#include "treegen/graph/links.h"

namespace sccl::treegen {

// At most `crossing` units leave the sets together, and the collective needs `crossings_per_unit` of them for every
// unit of rate: rate <= crossing / crossings_per_unit. Anyone can check it from the topology's links alone.
struct Bound {
  Rational rate;  // in capacity units
  Amount crossing = 0;
  int crossings_per_unit = 1;
  std::vector<std::vector<Node>> sets;
};

// Edmonds: the least maximum flow from the root to any rank; one set that holds the root. With switches and without
// shared sets it is reached as well where paths are unique (splitting off, Bang-Jensen, Frank and Jackson).
Bound broadcast_bound(const Links& links, Rank root);

// min over S of B+(S) / |S|: every root in S must get its data out. The rate of each root when all roots send alike.
Bound all_gather_bound(const Links& links);

// Tutte, Nash-Williams: an in-tree crosses a partition of the ranks into k sets at least k - 1 times, and so does an
// out-tree. Reached where capacities are equal both ways; switches belong to the sets they favour.
Bound all_reduce_bound(const Links& links);

// The units that leave `nodes` over single edges.
Amount leaving(const Links& links, const std::vector<Node>& nodes);

}  // namespace sccl::treegen
