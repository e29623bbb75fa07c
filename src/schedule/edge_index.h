// Dense numbers for a topology's directed edges, so that loads and times can be stored in arrays.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "topology/graph/routes.h"
#include "topology/topology.h"

namespace sccl::schedule {

using EdgeId = int;

// All parallel links from one node to another, as one edge.
struct EdgeInfo {
  topology::Edge ends;
  int lanes = 0;
  double gbytes_per_s = 0;  // sum over all lanes
  double alpha_us = 0;      // the least of the parallel links
  topology::LinkClass link_class = topology::LinkClass::shm;

  double lane_gbytes_per_s() const { return gbytes_per_s / lanes; }
};

class EdgeIndex {
 public:
  explicit EdgeIndex(const topology::Topology& topology);

  int size() const { return static_cast<int>(edges_.size()); }
  const EdgeInfo& operator[](EdgeId edge) const { return edges_[static_cast<std::size_t>(edge)]; }
  // -1 when there is no such edge.
  EdgeId find(const topology::Edge& ends) const;

  // The shared sets an edge belongs to, as indices into Topology::shared.
  std::span<const int> sets_of(EdgeId edge) const;
  // Bandwidth of one lane of a shared set: that of a lane of its slowest link.
  double set_lane_gbytes_per_s(int set) const { return set_rates_[static_cast<std::size_t>(set)]; }

 private:
  std::vector<EdgeInfo> edges_;  // ascending by (src, dst)
  std::vector<int> first_;       // by source node: position of its first edge in edges_
  std::vector<int> sets_;        // shared sets of all edges, one edge after the other
  std::vector<int> first_set_;   // by edge: position of its first set in sets_; empty without shared sets
  std::vector<double> set_rates_;
};

// The edges of paths from rank to rank. A schedule has few pairs of ranks and many sends: known paths are kept.
class EdgePaths {
 public:
  // Both must outlive it. `queries`: about how many paths are asked for; with many of them more are kept.
  EdgePaths(const topology::Topology& topology, const EdgeIndex& edges, std::size_t queries);

  // Empty where there is no path. Valid until the next call.
  std::span<const EdgeId> of(Rank src, Rank dst);

 private:
  struct Known {
    Rank src = -1;
    Rank dst = -1;
    std::vector<EdgeId> way;
  };
  const EdgeIndex& edges_;
  topology::Routes routes_;
  std::size_t ranks_;
  std::vector<Known> known_;  // by number of the pair, modulo their number
};

}  // namespace sccl::schedule
