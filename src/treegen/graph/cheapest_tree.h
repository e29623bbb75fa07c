// The cheapest out-tree for given prices of capacities.
#pragma once

#include "treegen/graph/links.h"

namespace sccl::treegen {

class CheapestTree {
 public:
  explicit CheapestTree(const Links& links);

  struct Priced {
    Tree tree;
    double cost = 0;
  };
  // `price_by_capacity` is the price of one unit; negative prices count as zero.
  Priced run(Rank root, const std::vector<double>& price_by_capacity);

  // As run(), with a price for each hop.
  Priced run_hops(Rank root, const std::vector<double>& price_by_hop);

  std::vector<double> hop_prices(const std::vector<double>& price_by_capacity) const;

 private:
  const Links& links_;
  CheapestArborescence search_;
  std::vector<Amount> costs_;
};

}  // namespace sccl::treegen
