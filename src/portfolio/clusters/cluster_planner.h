// The composites that could serve a collective on a cluster: its hosts pass data on as a whole, or as islands.
#pragma once

#include <memory>
#include <vector>

#include "portfolio/clusters/ranked.h"
#include "portfolio/composites/composites.h"

namespace sccl::portfolio {

// Plans for one cluster. Work that does not depend on the collective is done once.
class ClusterPlanner {
 public:
  // Throws like CompositePlanner.
  explicit ClusterPlanner(const topology::Topology& topology);

  // As of CompositePlanner. Those of islands come last.
  std::vector<CompositeCandidate> candidates(Collective collective, Rank root);

 private:
  CompositePlanner hosts_;
  std::unique_ptr<CompositePlanner> islands_;  // null: hosts have none
};

}  // namespace sccl::portfolio
