// Maximum flow and minimum cut of small networks: the one place that knows whose algorithm is used.
#pragma once

#include <cstdint>
#include <vector>

namespace sccl::synth {

struct Arc {
  int from = 0;
  int to = 0;
  std::int64_t capacity = 0;
};

struct FlowCut {
  std::int64_t value = 0;
  std::vector<bool> source_side;  // by node, of one minimum cut
};

FlowCut max_flow(int nodes, const std::vector<Arc>& arcs, int source, int sink);

}  // namespace sccl::synth
