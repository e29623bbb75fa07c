// A picture of a topology: ranks on a circle, switches inside it, a line for every lane.
#pragma once

#include <string>

#include "topology/topology.h"

namespace sccl::tools {

// Stands alone, follows the reader's light or dark colours, and tells classes apart by colour and by dashes.
std::string topo_svg(const topology::Topology& topology);

}  // namespace sccl::tools
