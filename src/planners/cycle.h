// Cycles through all ranks, for rings.
#pragma once

#include <optional>
#include <vector>

#include "topology/topology.h"

namespace sccl::planners {

// A closed tour of all ranks over existing paths, or none where the topology has none (or the search, which is bounded,
// finds none). Among tours whose narrowest link is widest; ranks 0, 1, 2, ... where that is one.
class Cycle {
 public:
  static std::optional<Cycle> find(const topology::Topology& topology);

  // `distance` places on from `rank`; negative distances go back.
  Rank hop(Rank rank, int distance) const {
    const int ranks = static_cast<int>(order_.size());
    const int place = (place_[static_cast<std::size_t>(rank)] + distance) % ranks;
    return order_[static_cast<std::size_t>(place < 0 ? place + ranks : place)];
  }

 private:
  explicit Cycle(std::vector<Rank> order);

  std::vector<Rank> order_;
  std::vector<int> place_;  // by rank, its index in order_
};

}  // namespace sccl::planners
