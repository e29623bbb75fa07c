// Upper bounds for every packing, each with the cut or partition that proves it.
#pragma once

#include <vector>

#include "treegen/graph/links.h"

namespace sccl::treegen {

// At most `crossing` units leave the sets together, and every unit of rate needs `crossings_per_unit` of them: rate <=
// crossing / crossings_per_unit. This can be checked from the topology's links alone.
struct Bound {
  Rational rate;  // in capacity units
  Amount crossing = 0;
  int crossings_per_unit = 1;
  std::vector<std::vector<Node>> sets;
};

// Edmonds: the minimum over all ranks of the maximum flow from the root; one set that contains the root. With switches
// but without shared sets the bound is also reached if paths are unique (splitting off, Bang-Jensen, Frank and
// Jackson).
Bound broadcast_bound(const Links& links, Rank root);

// min over S of B+(S) / |S|: every root in S must send its data out of S. The rate of each root when all roots send
// equally.
Bound all_gather_bound(const Links& links);

// The same where rank r sends data_by_rank[r] units for each unit of rate: min over S of B+(S) / (data of S).
Bound gather_bound(const Links& links, const std::vector<Amount>& data_by_rank);

// Tutte, Nash-Williams: an in-tree crosses a partition of the ranks into k sets at least k - 1 times, and so does an
// out-tree. The bound is reached if capacities are equal in both directions; each switch belongs to the set that gives
// the better bound.
Bound all_reduce_bound(const Links& links);

// The units that leave `nodes`, summed over single edges.
Amount leaving(const Links& links, const std::vector<Node>& nodes);

}  // namespace sccl::treegen
