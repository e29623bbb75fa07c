// The values of --topo and --devices, for every planning verb.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "topology/topology.h"

namespace sccl::tools {

// `text`: a preset's name, or a JSON or NCCL XML file. `devices`: the devices to keep, in that order; empty: all.
// Throws invalid_argument when `text` names neither, the file is damaged, or a device does not exist.
topology::Topology topology_argument(const std::string& text, const std::vector<int>& devices,
                                     double nic_gbits_per_s = 100);

// Throws invalid_argument where --nic-gbps is given and does not count for the topology; "": this machine.
void check_nic_option(const CLI::Option& nic_gbps, const std::string& topology);

}  // namespace sccl::tools
