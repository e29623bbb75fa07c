// The output of `sccl topo`: a matrix of paths between devices, and the bounds for every schedule on them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "portfolio/allocations.h"
#include "topology/formats/load.h"
#include "topology/symmetry/canonical.h"

namespace sccl::tools {

// Links of one class taken together: "nvlink: 32 links of 1 or 2 lanes, 25 GB/s a lane, 1.5 us (assumed)".
std::vector<std::string> describe_links(const topology::Topology& topology);

// "diameter 2; AllGather R/C at least 7/6; automorphisms: 4".
std::string describe_bounds(const topology::Topology& topology);

std::string topo_table(const topology::Machine& machine);

// The topology's own JSON, extended by what follows from the topology.
nlohmann::json topo_json(const topology::Machine& machine);

std::string classes_table(const std::vector<topology::SubsetClass>& classes);
nlohmann::json classes_json(const topology::Topology& topology, const std::vector<topology::SubsetClass>& classes);

// `sccl topo --best`: the ways to choose devices, best first.
std::string allocations_table(const std::vector<portfolio::Allocation>& allocations);
nlohmann::json allocations_json(const topology::Topology& topology,
                                const std::vector<portfolio::Allocation>& allocations);

}  // namespace sccl::tools
