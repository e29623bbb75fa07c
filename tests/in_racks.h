// Hosts of a cluster put into racks.
#pragma once

#include <numeric>
#include <vector>

#include "topology/topology.h"

namespace sccl_test {

// Hosts on one switch, in racks of so many: each rack has a switch of its own, joined with the first one.
inline sccl::topology::Topology in_racks(sccl::topology::Topology machine, const std::vector<int>& hosts,
                                         double gbytes_per_s) {
  const sccl::topology::Node spine = machine.nodes() - 1;
  const int ranks_of_host = machine.ranks / std::accumulate(hosts.begin(), hosts.end(), 0);
  std::vector<sccl::topology::Node> leaf_of;
  for (std::size_t rack = 0; rack < hosts.size(); ++rack) {
    leaf_of.insert(leaf_of.end(), static_cast<std::size_t>(hosts[rack] * ranks_of_host), machine.nodes());
    ++machine.switches;
    if (!machine.switch_kinds.empty()) machine.switch_kinds.push_back(machine.switch_kinds.back());
  }
  for (sccl::topology::Link& link : machine.links) {
    if (link.dst == spine) link.dst = leaf_of[static_cast<std::size_t>(link.src)];
    if (link.src == spine) link.src = leaf_of[static_cast<std::size_t>(link.dst)];
  }
  for (std::size_t rack = 0; rack < hosts.size(); ++rack) {
    const sccl::topology::Node leaf = spine + 1 + static_cast<int>(rack);
    machine.links.push_back({leaf, spine, 1, gbytes_per_s, 1, sccl::topology::LinkClass::net});
    machine.links.push_back({spine, leaf, 1, gbytes_per_s, 1, sccl::topology::LinkClass::net});
  }
  return machine;
}

}  // namespace sccl_test
