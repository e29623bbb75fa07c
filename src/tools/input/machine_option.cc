#include "tools/input/machine_option.h"

#include "base/error.h"
#include "tools/input/topology_argument.h"

namespace sccl::tools {

void MachineOption::add_to(CLI::App& app) {
  app.add_option("--topo", name_, "preset, A*PRESET, host:N, switch:N or a topology file (JSON, NCCL's XML)");
  app.add_option("--devices", devices_, "only these devices, renumbered in this order")->delimiter(',');
  nic_gbps_ =
      app.add_option("--nic-gbps", nic_gbits_per_s_, "Gbit/s of each device's NIC in A*PRESET")->capture_default_str();
}

topology::Topology MachineOption::machine() const {
  check_nic_option(*nic_gbps_, name_);
  return topology_argument(name_, devices_, nic_gbits_per_s_);
}

std::optional<topology::Topology> MachineOption::machine_if_given() const {
  if (given()) return machine();
  check_nic_option(*nic_gbps_, name_);
  if (!devices_.empty())
    fail(ErrorCode::invalid_argument,
         "--devices names devices of --topo, and --topo is not given: leave out --devices, or name a machine");
  return std::nullopt;
}

}  // namespace sccl::tools
