// --topo and --devices, as every verb that plans takes them.
#pragma once

#include <string>
#include <vector>

#include "topology/topology.h"

namespace sccl::tools {

// `text`: a preset's name, or a JSON or NCCL XML file. `devices`: those to keep, in that order; empty: all. Throws
// invalid_argument for what is neither, is broken, or has no such device.
topology::Topology topology_argument(const std::string& text, const std::vector<int>& devices,
                                     double nic_gbits_per_s = 100);

}  // namespace sccl::tools
