// Cycles through all ranks, for rings.
#pragma once

#include <optional>
#include <vector>

#include "topology/topology.h"

namespace sccl::planners {

// A closed tour of all ranks over existing paths. Prefers tours whose narrowest link is widest; among these, the
// natural order 0, 1, 2, ... Nothing when the topology has no such tour, or when the bounded search finds none.
class Cycle {
 public:
  static std::optional<Cycle> find(const topology::Topology& topology);

  // The rank `distance` places after `rank` on the tour; a negative distance goes back.
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
