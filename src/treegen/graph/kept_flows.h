// Whether sinks still get a flow from one source, while capacities change a little from question to question.
//
// The flow of the last answer is kept for each sink. It is an answer again if no arc has less capacity than the flow
// on it, and only arcs whose capacity has become less since can have. What is too much for an arc goes another way from
// its beginning to its end. What finds none is taken back from the source and from the sink; by as much the largest
// flow is smaller. So most questions cost a few searches for a way, and no maximum flow.
#pragma once

#include <cstddef>
#include <vector>

#include "treegen/graph/graph_algorithms.h"

namespace sccl::treegen {

class KeptFlows {
 public:
  // Sinks are the nodes 0, 1, ... sinks - 1. At first all capacities are zero.
  KeptFlows(int nodes, const std::vector<topology::Arc>& arcs, int source, int sinks);

  void set_capacity(std::size_t arc, Amount capacity) {
    if (capacity < capacity_[arc]) lowered_.push_back(arc);
    capacity_[arc] = capacity;
  }

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
    std::size_t seen = 0;    // so many of lowered_; on arcs that come later it may be too large
  };
  struct Change {
    std::size_t arc = 0;
    Amount before = 0;
  };

  Amount room(const Flow& flow, const Way& way) const {
    return way.back ? flow.on[way.arc] : capacity_[way.arc] - flow.on[way.arc];
  }
  bool find_way(const Flow& flow, int from, int to);
  void change(Flow& flow, std::size_t arc, Amount by);
  Amount push(Flow& flow, int from, int to, Amount wanted);
  bool fit(Flow& flow, std::size_t arc, int sink, Amount amount);
  bool make(Flow& flow, int sink, Amount amount);
  void forget_what_all_have_seen();

  std::vector<topology::Arc> arcs_;
  int source_;
  std::vector<Amount> capacity_;
  std::vector<std::vector<Way>> ways_from_;  // by node
  std::vector<Flow> flows_;                  // by sink
  std::vector<std::size_t> lowered_;         // arcs, in the order in which they lost capacity
  std::vector<Change> changes_;              // of the flow that is being made, the last one last
  std::vector<int> found_;                   // nodes in the order in which the last search found them
  std::vector<Way> by_;                      // by node: how it was found
  std::vector<int> found_from_;              // by node: -1 if it was not found
};

}  // namespace sccl::treegen
