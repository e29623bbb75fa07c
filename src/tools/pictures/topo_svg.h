// A picture of a topology: ranks on a circle, switches inside it, a line for every lane.
#pragma once

#include <string>

#include "topology/topology.h"

namespace sccl::tools {

// Self-contained, follows the reader's light or dark mode, and distinguishes classes by colour and dashes.
std::string topo_svg(const topology::Topology& topology);

}  // namespace sccl::tools
