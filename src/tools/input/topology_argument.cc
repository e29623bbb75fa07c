#include "tools/input/topology_argument.h"

#include "topology/formats/load.h"

namespace sccl::tools {

topology::Topology topology_argument(const std::string& text, const std::vector<int>& devices, double nic_gbits_per_s) {
  topology::Machine machine = topology::load(text, nic_gbits_per_s);
  return devices.empty() ? std::move(machine.topology) : topology::part_of(machine, devices).topology;
}

}  // namespace sccl::tools
