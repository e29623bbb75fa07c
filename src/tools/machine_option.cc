#include "tools/machine_option.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tools/schedule_file.h"
#include "topology/json.h"
#include "topology/presets.h"

namespace sccl::tools {
namespace {

topology::Topology from_file(const std::string& path) {
  const auto json = nlohmann::json::parse(read_text(path), nullptr, false);
  if (json.is_discarded()) fail(ErrorCode::invalid_argument, "{} is not JSON: give a topology file or a preset's name", path);
  return topology::from_json(json);
}

}  // namespace

void MachineOption::add_to(CLI::App& app) {
  app.add_option("--topo", name_, "preset, A*PRESET, host:N, switch:N or a topology file (JSON)");
  app.add_option("--devices", devices_, "only these devices, renumbered in this order")->delimiter(',');
  app.add_option("--nic-gbps", nic_gbits_per_s_, "Gbit/s of each device's NIC in A*PRESET")->capture_default_str();
}

topology::Topology MachineOption::machine() const {
  const bool file = std::filesystem::is_regular_file(name_);
  topology::Topology whole = file ? from_file(name_) : topology::preset(name_, nic_gbits_per_s_);
  return devices_.empty() ? whole : topology::subset(whole, devices_);
}

}  // namespace sccl::tools
