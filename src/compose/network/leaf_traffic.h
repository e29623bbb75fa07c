// What leaf switches send one another, laid on the links between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compose/form/composite.h"
#include "compose/network/link_loads.h"
#include "compose/network/sums_by_key.h"
#include "topology/symmetry/cluster.h"

namespace sccl::compose {

// Together: link by link; all that goes to switches behind a link is added to it at once. That takes time linear in the
// switches, however long the paths are. Sums differ from those path by path, in the order of the targets, by rounding.
enum class Paths : std::uint8_t { each, together };

// From one leaf switch to others.
class LeafTraffic {
 public:
  LeafTraffic(topology::NetworkWays& ways, LinkLoads& loads, int nodes)
      : ways_(ways), loads_(loads), to_(static_cast<std::size_t>(nodes)) {}

  void add(topology::Node to, double bytes, std::int64_t connections) {
    LinkLoad& load = to_[static_cast<std::size_t>(to)];
    if (load.connections == 0) targets_.push_back(to);
    load.bytes += bytes;
    load.connections += connections;
  }

  // Adds to links what was added for targets, and forgets it.
  void lay(topology::Node from, Paths paths);

 private:
  void lay_each(topology::Node from);
  void lay_together(topology::Node from);

  topology::NetworkWays& ways_;
  LinkLoads& loads_;
  std::vector<LinkLoad> to_;  // by node
  std::vector<topology::Node> targets_;
};

// Of what one host sends to another one.
inline SumsByKey::Key of_hosts(int from, int to) {
  return SumsByKey::Key{static_cast<std::uint32_t>(from)} << 32 | static_cast<std::uint32_t>(to);
}

// Bytes per byte of L, by of_hosts().
void lay_pairs(const Composite& composite, const topology::Cluster& cluster, const SumsByKey& pairs, Paths paths,
               LeafTraffic& traffic);

// An AlltoAll's messages between all hosts. Hosts whose devices share leaf switches alike are taken together: pairs of
// hosts are too many to look at.
void lay_alltoall(const Composite& composite, const topology::Cluster& cluster, LeafTraffic& traffic);

}  // namespace sccl::compose
