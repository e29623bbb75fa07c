// Cheapest arborescences from the LEMON library, behind plain types as in topology/graph/max_flow.h.
//
// LEMON 1.3.1 does not compile as C++20, so only one source file includes it, and that file and this header keep to
// C++17. Amounts and costs are integers: results do not depend on rounding, and every rank computes the same results.
#pragma once

#include <memory>
#include <vector>

#include "topology/graph/max_flow.h"

namespace sccl::treegen {

using topology::Amount;
using topology::Arc;
using topology::MaxFlow;

// Cheapest spanning arborescences (Chu-Liu, Edmonds), O(arcs * nodes).
class CheapestArborescence {
 public:
  CheapestArborescence(int nodes, const std::vector<Arc>& arcs);
  ~CheapestArborescence();
  CheapestArborescence(CheapestArborescence&&) noexcept;

  // By node: the index of the arc that enters it; -1 for the root. Every node must be reachable from the root, and
  // costs must not be negative.
  std::vector<int> run(int root, const std::vector<Amount>& cost_by_arc);

 private:
  struct Graph;
  std::unique_ptr<Graph> graph_;
};

}  // namespace sccl::treegen
