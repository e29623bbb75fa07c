#include "tools/topology_argument.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "topology/json.h"
#include "topology/presets.h"

namespace sccl::tools {
namespace {

topology::Topology from_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) fail(ErrorCode::invalid_argument, "topology file '{}' cannot be opened", path);
  const nlohmann::json json = nlohmann::json::parse(file, nullptr, false);
  if (json.is_discarded()) fail(ErrorCode::invalid_argument, "topology file '{}' is not JSON", path);
  return topology::from_json(json);
}

}  // namespace

topology::Topology topology_argument(const std::string& text, const std::vector<int>& devices) {
  std::error_code ignored;
  const bool is_file = std::filesystem::is_regular_file(text, ignored);
  topology::Topology topology = is_file ? from_file(text) : topology::preset(text);
  return devices.empty() ? topology : topology::subset(topology, devices);
}

}  // namespace sccl::tools
