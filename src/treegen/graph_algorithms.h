// Maximum flow and cheapest arborescences, from the LEMON library behind plain types.
//
// LEMON 1.3.1 does not compile as C++20, so it is seen by one source file only, and that file and this header keep to
// C++17. Amounts and costs are integers: results do not depend on rounding, and every rank computes the same ones.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace sccl::treegen {

using Amount = std::int64_t;

struct Arc {
  int src = 0;
  int dst = 0;
};

// The arcs stay, their capacities may change between runs.
class MaxFlow {
 public:
  MaxFlow(int nodes, const std::vector<Arc>& arcs);
  ~MaxFlow();
  MaxFlow(MaxFlow&&) noexcept;

  void set_capacity(std::size_t arc, Amount capacity);
  Amount run(int source, int sink);
  // Of the last run: true for nodes on the source's side of a minimum cut.
  std::vector<bool> source_side() const;

 private:
  struct Graph;
  std::unique_ptr<Graph> graph_;
};

// Cheapest spanning arborescences (Chu-Liu, Edmonds), O(arcs * nodes).
class CheapestArborescence {
 public:
  CheapestArborescence(int nodes, const std::vector<Arc>& arcs);
  ~CheapestArborescence();
  CheapestArborescence(CheapestArborescence&&) noexcept;

  // By node, the index of the arc that enters it; -1 for the root. Every node must be reachable from the root, and
  // costs must not be negative.
  std::vector<int> run(int root, const std::vector<Amount>& cost_by_arc);

 private:
  struct Graph;
  std::unique_ptr<Graph> graph_;
};

}  // namespace sccl::treegen
