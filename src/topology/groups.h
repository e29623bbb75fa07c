// Nodes that links join to groups.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "topology/topology.h"

namespace sccl::topology {

// Union-find. A group is told by its lowest node, so that one with a rank is told by a rank.
class Groups {
 public:
  explicit Groups(int nodes) : leader_(static_cast<std::size_t>(nodes)) {
    std::iota(leader_.begin(), leader_.end(), 0);
  }

  Node of(Node node) {
    while (leader(node) != node) node = leader(node) = leader(leader(node));
    return node;
  }
  void join(Node a, Node b) {
    a = of(a);
    b = of(b);
    leader(std::max(a, b)) = std::min(a, b);
  }

 private:
  Node& leader(Node node) { return leader_[static_cast<std::size_t>(node)]; }

  std::vector<Node> leader_;
};

}  // namespace sccl::topology
