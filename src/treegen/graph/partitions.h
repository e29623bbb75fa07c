// The cheapest partition of the ranks by a function of its sets, as Tutte's and Nash-Williams' theorem needs it.
#pragma once

#include <vector>

#include "treegen/graph/links.h"

namespace sccl::treegen {

// The cost of a set A of ranks: what leaves A, less `reward_per_set`, less `reward_if_apart` if A contains none of
// `together`. Switches belong to the set that they make cheapest.
struct PartitionCost {
  std::vector<Amount> capacity_by_edge;
  Amount reward_per_set = 0;
  Amount reward_if_apart = 0;
  std::vector<Rank> together;
};

struct Partition {
  Amount cost = 0;
  std::vector<std::vector<Node>> sets;
};

class CheapestPartition {
 public:
  explicit CheapestPartition(const Links& links);
  Partition run(const PartitionCost& cost);  // as many maximum flows as there are ranks

 private:
  std::vector<Node> cheapest_set_with(Rank last, Amount& cost_of_last);

  const Links& links_;
  MaxFlow flow_;
  std::vector<Amount> prices_;  // by rank, for the ranks already included
};

}  // namespace sccl::treegen
