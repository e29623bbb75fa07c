// What the first rank of a host finds out about the links of its host's ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topology/system/system_topology.h"
#include "topology/topology.h"

namespace sccl::runtime {

struct HostBox {
  std::optional<topology::Topology> links;  // between the ranks of this host; none: their host's memory
  std::vector<topology::NicPlace> nics;     // in `links`, as far as they are known
  std::vector<std::string> warnings;        // sources that could not be used, one line each, for all ranks
};

}  // namespace sccl::runtime
