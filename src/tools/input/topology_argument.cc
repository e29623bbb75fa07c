#include "tools/input/topology_argument.h"

#include "base/error.h"
#include "topology/formats/load.h"

namespace sccl::tools {

topology::Topology topology_argument(const std::string& text, const std::vector<int>& devices, double nic_gbits_per_s) {
  topology::Machine machine = topology::load(text, nic_gbits_per_s);
  return devices.empty() ? std::move(machine.topology) : topology::part_of(machine, devices).topology;
}

void check_nic_option(const CLI::Option& nic_gbps, const std::string& topology) {
  if (nic_gbps.count() == 0 || topology::names_preset_of_hosts(topology)) return;
  fail(ErrorCode::invalid_argument,
       "--nic-gbps is the rate of the NICs of A*PRESET, and --topo {}: leave out --nic-gbps, or name hosts, as in "
       "2*dgx1v",
       topology.empty() ? "is not given" : fmt::format("names '{}'", topology));
}

}  // namespace sccl::tools
