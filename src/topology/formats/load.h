// Loads the topology that a user names: a preset, or a file in either format.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "topology/system/system.h"
#include "topology/topology.h"

namespace sccl::topology {

struct Machine {
  Topology topology;
  std::optional<Element> system;  // from NCCL's XML or a probe; nothing for presets and JSON
};

// Whether `text` has the form "A*PRESET", whose NICs have a rate that load() is given.
bool names_preset_of_hosts(std::string_view text);

// `text` is the name of a preset, optionally followed by a colon and the devices to keep ("dgx1v:1,4,5"), or the path
// of a JSON or NCCL XML file (the first character tells which). Throws invalid_argument when the file cannot be read or
// holds no topology, when neither a file nor a preset has that name, or when a device does not exist.
Machine load(std::string_view text, double nic_gbits_per_s = 100);

// The machine reduced to these devices; devices[i] becomes rank i. Where the machine's description is known, the
// topology is built from it again: if NVLinks no longer join all devices, PCI paths are added.
Machine part_of(const Machine& machine, std::span<const int> devices);

// What the user names by SCCL_TOPO (a preset or a file), and by NCCL_TOPO_FILE (NCCL's XML of a machine).
std::optional<std::string> named_topology();
std::optional<std::string> named_system_file();

// The topology of a setting such as SCCL_TOPO.
Topology from_setting(std::string_view text);

}  // namespace sccl::topology
