// Whether sinks still get a flow from one source, while capacities change a little from question to question.
//
// The flow of the last answer is kept for each sink. It is an answer again if no arc has less capacity than the flow
// on it. What is too much for an arc goes another way from its beginning to its end; if that is impossible, no flow is
// as large. So most questions cost a few searches for a way, and no maximum flow.
#pragma once

#include <cstddef>
#include <vector>

#include "treegen/graph/graph_algorithms.h"

namespace sccl::treegen {

class KeptFlows {
 public:
  // Sinks are the nodes 0, 1, ... sinks - 1. At first all capacities are zero.
  KeptFlows(int nodes, const std::vector<topology::Arc>& arcs, int source, int sinks);

  void set_capacity(std::size_t arc, Amount capacity) { capacity_[arc] = capacity; }

  // Whether a flow of so much reaches the sink.
  bool reaches(int sink, Amount amount);

 private:
  // One end of an arc: where it leads, and whether against the arc's direction.
  struct Way {
    std::size_t arc = 0;
    int to = 0;
    bool back = false;
  };
  struct Flow {
    Amount value = 0;
    std::vector<Amount> on;  // by arc
  };

  Amount room(const Flow& flow, const Way& way) const {
    return way.back ? flow.on[way.arc] : capacity_[way.arc] - flow.on[way.arc];
  }
  bool find_way(const Flow& flow, int from, int to);
  Amount push(Flow& flow, int from, int to, Amount wanted);
  bool keep_to_capacities(Flow& flow);

  std::vector<topology::Arc> arcs_;
  int source_;
  std::vector<Amount> capacity_;
  std::vector<std::vector<Way>> ways_from_;  // by node
  std::vector<Flow> flows_;                  // by sink
  Flow tried_;
  std::vector<int> found_;       // nodes in the order in which the last search found them
  std::vector<Way> by_;          // by node: how it was found
  std::vector<int> found_from_;  // by node: -1 if it was not found
};

}  // namespace sccl::treegen
