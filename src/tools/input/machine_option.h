// The options that name a machine (--topo, --devices, --nic-gbps), for the planning verbs.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "topology/topology.h"

namespace sccl::tools {

class MachineOption {
 public:
  void add_to(CLI::App& app);
  bool given() const { return !name_.empty(); }
  // After add_to(). Throws invalid_argument when the name, the file or a device is wrong, or --nic-gbps does not count.
  topology::Topology machine() const;
  // None without --topo. Throws as machine(), and where another option has no effect without --topo.
  std::optional<topology::Topology> machine_if_given() const;

 private:
  std::string name_;
  std::vector<int> devices_;
  double nic_gbits_per_s_ = 100;
  const CLI::Option* nic_gbps_ = nullptr;
};

}  // namespace sccl::tools
