// What a user names when asked for a topology: a preset, or a file in either format.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "topology/system.h"
#include "topology/topology.h"

namespace sccl::topology {

struct Machine {
  Topology topology;
  std::optional<Element> system;  // what NCCL's XML or a probe said; nothing for presets and JSON
};

// `text` is the name of a preset, which may be followed by a colon and the devices to keep of it ("dgx1v:1,4,5"), or
// the path of a JSON or NCCL XML file (told apart by what they begin with). Throws invalid_argument: the file cannot be
// read or does not hold a topology, there is neither file nor preset of that name, or no such device.
Machine load(std::string_view text, double nic_gbits_per_s = 100);

// Of the machine, these devices, renumbered to ranks in this order. Where the machine's description is known, PCI paths
// come in again between devices that have lost their NVLinks' company.
Machine part_of(const Machine& machine, std::span<const int> devices);

// The topology of a setting such as SCCL_TOPO.
Topology from_setting(std::string_view text);

}  // namespace sccl::topology
