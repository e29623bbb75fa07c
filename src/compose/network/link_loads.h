// What a composite passes over each link, and on how many connections.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "schedule/edge_index.h"

namespace sccl::compose {

struct LinkLoad {
  double bytes = 0;              // per byte of L (schedule/simulation/cost.h)
  std::int64_t connections = 0;  // none: the link is not used
};

class LinkLoads {
 public:
  explicit LinkLoads(const schedule::EdgeIndex& edges)
      : edges_(edges), loads_(static_cast<std::size_t>(edges.size())) {}

  void add(const topology::Edge& edge, double bytes, std::int64_t connections) {
    LinkLoad& load = loads_[static_cast<std::size_t>(edges_.find(edge))];
    load.bytes += bytes;
    load.connections += connections;
  }
  void add(const std::vector<topology::Edge>& way, double bytes, std::int64_t connections) {
    for (const topology::Edge& edge : way) add(edge, bytes, connections);
  }

  const LinkLoad& of(schedule::EdgeId edge) const { return loads_[static_cast<std::size_t>(edge)]; }

 private:
  const schedule::EdgeIndex& edges_;
  std::vector<LinkLoad> loads_;  // by edge
};

}  // namespace sccl::compose
