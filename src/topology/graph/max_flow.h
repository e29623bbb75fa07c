// Maximum flow and minimum cut, from the LEMON library behind plain types. On networks of this kind its preflow-push
// takes half the time of Boost's algorithms.
//
// LEMON 1.3.1 does not compile as C++20, so only max_flow.cc includes it; max_flow.cc and this header keep to C++17.
// Amounts are integers: results do not depend on rounding, and every rank computes the same results.
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

// The arcs are fixed; their capacities may change between runs.
class MaxFlow {
 public:
  MaxFlow(int nodes, const std::vector<Arc>& arcs);
  ~MaxFlow();
  MaxFlow(MaxFlow&&) noexcept;

  void set_capacity(std::size_t arc, Amount capacity);
  Amount run(int source, int sink);
  // By node, for the last run: true for nodes on the source's side of a minimum cut.
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

// For a network that is solved once.
FlowCut minimum_cut(int nodes, const std::vector<CapacityArc>& arcs, int source, int sink);

}  // namespace sccl::topology
