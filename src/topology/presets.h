// Well-known machines by name, and parts and clusters of them.
#pragma once

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

// A preset's name, "host:N", "switch:N" (N devices on one non-blocking switch, two links each however many they are),
// or "A*B": A hosts of preset B, each device with its own NIC of `nic_gbits_per_s` on one non-blocking switch. Throws
// invalid_argument that lists the names.
Topology preset(std::string_view name, double nic_gbits_per_s = 100);

// What is left of a machine for a job that was given `devices` of it, renumbered to ranks 0, 1, ... in that order.
// Switches stay while two of the kept nodes use them. Throws invalid_argument for a device that does not exist or is
// named twice.
Topology subset(const Topology& topology, std::span<const int> devices);

}  // namespace sccl::topology
