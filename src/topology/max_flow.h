// Maximum flow and minimum cut, from the LEMON library behind plain types: on the networks here its preflow-push takes
// half the time of Boost's algorithms.
//
// LEMON 1.3.1 does not compile as C++20, so it is seen by one source file only, and that file and this header keep to
// C++17. Amounts are integers: results do not depend on rounding, and every rank computes the same ones.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace sccl::topology {

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

struct CapacityArc {
  int src = 0;
  int dst = 0;
  Amount capacity = 0;
};

struct FlowCut {
  Amount value = 0;
  std::vector<bool> source_side;  // by node, of one minimum cut
};

// For networks that are asked once.
FlowCut minimum_cut(int nodes, const std::vector<CapacityArc>& arcs, int source, int sink);

}  // namespace sccl::topology
