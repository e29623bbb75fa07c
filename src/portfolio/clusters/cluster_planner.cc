#include "portfolio/clusters/cluster_planner.h"

#include <iterator>
#include <utility>

#include "topology/symmetry/islands.h"

namespace sccl::portfolio {

ClusterPlanner::ClusterPlanner(const topology::Topology& topology) : hosts_(topology) {
  if (const auto islands = topology::split_into_islands(topology, hosts_.cluster()))
    islands_ = std::make_unique<CompositePlanner>(*islands, hosts_.topology(), hosts_.cluster());
}

std::vector<CompositeCandidate> ClusterPlanner::candidates(Collective collective, Rank root) {
  std::vector<CompositeCandidate> result = hosts_.candidates(collective, root);
  if (islands_ == nullptr) return result;
  auto more = islands_->candidates(collective, root);
  result.insert(result.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  return result;
}

}  // namespace sccl::portfolio
