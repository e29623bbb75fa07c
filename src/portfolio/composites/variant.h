// What composites of one cluster differ in, as their planner goes through them.
#pragma once

#include <numeric>
#include <string_view>

#include "portfolio/composites/composites.h"

namespace sccl::portfolio {

// Trees over the root's host.
struct CompositePlanner::Forest {
  std::string_view name;
  std::vector<RootTree> trees;
  std::span<const Framing> frames;
  std::size_t level = kNoLevel;  // the only one that it serves

  double rate() const {
    return std::accumulate(trees.begin(), trees.end(), 0.0,
                           [](double sum, const RootTree& one) { return sum + one.gbytes_per_s; });
  }
};

struct CompositePlanner::Variant {
  Collective collective;
  Rank root;
  std::size_t level;
  compose::Shape shape = compose::Shape::direct;
  bool racks = false;
  bool rack_trees = false;  // compose/form/rack_trees.h
  bool leaves = false;      // hosts with few NICs pass data on to none
  compose::Meeting meeting = compose::Meeting::trees;
  bool leaders = false;  // all that a host exchanges with others goes through one of its ranks
  Framing frames{};
  std::shared_ptr<const schedule::Schedule> at_root = nullptr;
  const Forest* forest = nullptr;
  const OuterTrees* outer = nullptr;  // instead of the shape
  bool by_turns = false;              // blocks take all ports of their own host in turn, too, not only those near them
  bool by_rails = false;              // unicast: a block changes hosts at the port with the index of the block's target
  bool all_nics = false;              // unicast: also those on rails that some host lacks
  bool pairs = false;                 // unicast: compose::Composite::rails_of_pairs
  int across = 0;                     // compose::Composite::pace_across
};

// What one thread needs to make composites. They keep what composites share, so each thread has its own.
struct CompositePlanner::Workshop {
  Workshop(const std::shared_ptr<const topology::Topology>& topology,
           const std::shared_ptr<const topology::Cluster>& cluster)
      : costs(topology, cluster), verifier(topology) {}

  compose::CostModel costs;
  compose::Verifier verifier;
};

}  // namespace sccl::portfolio
