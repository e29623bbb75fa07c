#include "tools/topology_argument.h"

#include "topology/load.h"

namespace sccl::tools {

topology::Topology topology_argument(const std::string& text, const std::vector<int>& devices) {
  const topology::Machine machine = topology::load(text);
  return devices.empty() ? machine.topology : topology::part_of(machine, devices).topology;
}

}  // namespace sccl::tools
