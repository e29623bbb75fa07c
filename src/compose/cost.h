// What a composite costs in closed form: how busy each level's links are for a byte, and how long the first slice takes
// from end to end.
//
// The model. Levels overlap, since slices of a chunk go on as soon as they arrive: the busiest link of any level bounds
// the time, as every link of it carries what it has to, and before and after it a slice passes the other levels. A
// ring is different: its steps are as many as its hosts, and while a link is busy with earlier chunks they cost
// nothing.
//     time = max(busiest link of hosts or network, the ring's chain) + latencies and one slice a step of the rest
// A chunk's slice goes through a connection after the slice before it of all chunks did. Where chunks of all ages share
// connections (all collectives but Broadcast and Reduce, whose chunks pass a connection at one depth), chunks of
// several slices take as many times the whole way, if that is longer. Composite::frames make chunks small instead. No
// term grows with chunks or ranks: loads are summed over one representative of the chunks that take the same way.
#pragma once

#include <memory>
#include <vector>

#include "compose/composite.h"
#include "schedule/edge_index.h"
#include "topology/cluster.h"

namespace sccl::compose {

struct Phase {
  int steps = 0;
  double alpha_us = 0;     // of a step
  double us_per_byte = 0;  // of a slice on one lane
  double time_us(double slice) const { return steps * (alpha_us + slice * us_per_byte); }
};

struct Cost {
  double network_us_per_byte = 0;  // of the busiest link between hosts, for a byte of L (schedule/cost.h)
  double host_us_per_byte = 0;     // of the busiest link within a host
  Phase on_host;                   // steps of all phases on the hosts together
  Phase between_hosts;
  bool chained = false;    // steps between hosts hide behind one another (rings)
  bool one_depth = false;  // chunks pass a connection at one depth of their way
  int frames = 1;
  double chunk_per_byte = 1;  // a chunk's part of L

  double busy_us(double bytes) const;
  // Slices no longer than `slice_bytes`; no chunk is sent in longer ones.
  double time_us(double bytes, double slice_bytes) const;
  // The largest slice, a power of two of at least 4 KiB, with which the time is within a hundredth of the least.
  double good_slice(double bytes, double most_slice_bytes) const;
};

// Made once for a cluster, for the cost of any number of composites on it.
class CostModel {
 public:
  CostModel(std::shared_ptr<const topology::Topology> topology, std::shared_ptr<const topology::Cluster> cluster);

  // Throws invalid_argument when a link that is used has no bandwidth.
  Cost cost(const Composite& composite);

  const topology::Cluster& cluster() const { return *cluster_; }
  const topology::Topology& topology() const { return *topology_; }
  const schedule::EdgeIndex& edges() const { return edges_; }

 private:
  friend class Loads;
  std::shared_ptr<const topology::Topology> topology_;
  std::shared_ptr<const topology::Cluster> cluster_;
  schedule::EdgeIndex edges_;
  topology::NetworkWays ways_;
};

}  // namespace sccl::compose
