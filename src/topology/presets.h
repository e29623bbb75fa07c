// Well-known machines by name, and parts and clusters of them.
#pragma once

#include <map>
#include <span>
#include <string_view>

#include "topology/topology.h"

namespace sccl::topology {

struct Preset {
  std::string_view name;
  Topology (*make)();
  std::string_view summary;
};

std::span<const Preset> presets();

// Accepts a preset's name, "host:N", "switch:N" (N devices on one non-blocking switch; each device has one link to and
// one from the switch), or "A*B": A hosts of preset B; each device has its own NIC of `nic_gbits_per_s` on one
// non-blocking switch. Throws invalid_argument that lists the names.
Topology preset(std::string_view name, double nic_gbits_per_s = 100);

// Adds to `to` the links and shared sets of `from` among the nodes that have a number, which become those numbers.
void copy_links(const Topology& from, const std::map<Node, Node>& number, Topology& to);

// A machine reduced to `devices`; devices[i] becomes rank i. A switch stays while at least two kept nodes use it.
// Throws invalid_argument for a device that does not exist or is named twice.
Topology subset(const Topology& topology, std::span<const int> devices);

}  // namespace sccl::topology
