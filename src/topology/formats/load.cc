#include "topology/formats/load.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/settings/env.h"
#include "base/settings/log.h"
#include "base/settings/printable.h"
#include "topology/dead_links.h"
#include "topology/formats/json.h"
#include "topology/formats/nccl_xml.h"
#include "topology/presets.h"
#include "topology/slow_nics.h"
#include "topology/system/system_topology.h"
#include "topology/twin_switches.h"

namespace sccl::topology {
namespace {

constexpr std::uintmax_t kMostBytes = 256u << 20;

bool names_file(std::string_view text) {
  if (text.find('/') != std::string_view::npos || text.ends_with(".json") || text.ends_with(".xml")) return true;
  std::error_code ignored;
  return std::filesystem::is_regular_file(std::filesystem::path(text), ignored);
}

// "dgx1v:1,4,5" is a machine and a list of its devices; "host:4" is a machine.
std::optional<std::pair<std::string_view, std::string_view>> machine_and_devices(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view machine = text.substr(0, colon);
  if (machine.ends_with("host") || machine.ends_with("switch")) return std::nullopt;
  return std::pair{machine, text.substr(colon + 1)};
}

std::vector<int> device_list(std::string_view text, std::string_view list) {
  std::vector<int> devices;
  for (const char* at = list.data(); at != list.data() + list.size() + 1;) {
    const auto [end, error] = std::from_chars(at, list.data() + list.size(), devices.emplace_back());
    const bool last = end == list.data() + list.size();
    if (error != std::errc{} || (!last && *end != ','))
      fail(ErrorCode::invalid_argument,
           "'{}': no list of devices follows the colon: give their numbers with commas, as in dgx1v:0,1,4", text);
    at = end + 1;
  }
  return devices;
}

std::string content_of(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    fail(ErrorCode::invalid_argument, "topology file {} cannot be read: give a JSON or NCCL XML file", path.string());
  if (std::filesystem::file_size(path, error) > kMostBytes)
    fail(ErrorCode::invalid_argument, "topology file {} has more than {} bytes: this is no machine", path.string(),
         kMostBytes);
  std::ifstream file(path, std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(file), {}};
  if (!file) fail(ErrorCode::invalid_argument, "topology file {} cannot be read: check its permissions", path.string());
  return content;
}

Machine parsed(const std::string& content) {
  const std::size_t first = content.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (first != std::string::npos && content[first] == '<') {
    Element system = system_from_xml(content);
    Topology topology = topology_from_system(system);
    return {std::move(topology), std::move(system)};
  }
  const nlohmann::json json = nlohmann::json::parse(content, nullptr, false);
  if (json.is_discarded())
    fail(ErrorCode::invalid_argument, "neither JSON nor XML: see the topology formats in the documentation");
  // A schedule file contains its topology.
  return {from_json(json.is_object() && json.contains("topology") ? json.at("topology") : json), std::nullopt};
}

void set_rank(Element& element, std::string_view busid, Rank rank) {
  for (Element& child : element.children) {
    if (child.tag == "gpu" && normal_busid(element.get("busid")) == busid) child.set("rank", std::to_string(rank));
    set_rank(child, busid, rank);
  }
}

}  // namespace

bool names_preset_of_hosts(std::string_view text) {
  return !names_file(text) && text.find('*') != std::string_view::npos;
}

Machine load(std::string_view text, double nic_gbits_per_s) {
  const std::filesystem::path path(text);
  if (!names_file(text)) {
    const auto parts = machine_and_devices(text);
    if (!parts) return {preset(text, nic_gbits_per_s), std::nullopt};
    return {subset(preset(parts->first, nic_gbits_per_s), device_list(text, parts->second)), std::nullopt};
  }
  try {
    Machine machine = parsed(content_of(path));
    if (const int dead = leave_out_dead_links(machine.topology); dead > 0)
      log::warn("{}: {} links have 0 GB/s: continuing without them", path.string(), dead);
    if (const int slow = leave_out_slow_nics(machine.topology); slow > 0)
      log::info(log::Subsystem::graph, "{}: {} NICs are far slower than others of their hosts: continuing without them",
                path.string(), slow);
    join_twin_switches(machine.topology);
    if (!machine.system) leave_out_lone_switches(machine.topology);
    return machine;
  } catch (const Error& error) {
    const std::string message = error.what();
    if (message.find(path.string()) != std::string::npos) throw;
    fail(error.code(), "{}: {}", path.string(), printable(message));
  }
}

Machine part_of(const Machine& machine, std::span<const int> devices) {
  Machine part{subset(machine.topology, devices), std::nullopt};
  if (!machine.system) return part;
  const std::vector<std::string> busids = gpu_busids(*machine.system);
  if (busids.empty()) return part;  // a host without devices, whose ranks share its memory
  std::vector<std::string> kept;
  Element system = *machine.system;
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    kept.push_back(busids.at(static_cast<std::size_t>(devices[rank])));
    set_rank(system, kept.back(), static_cast<Rank>(rank));
  }
  keep_gpus(system, kept);
  std::vector<int> ids = std::move(part.topology.devices);
  part.topology = topology_from_system(system);
  part.topology.devices = std::move(ids);
  part.system = std::move(system);
  return part;
}

std::optional<std::string> named_topology() { return env::text("SCCL_TOPO"); }
std::optional<std::string> named_system_file() { return env::text("NCCL_TOPO_FILE"); }

Topology from_setting(std::string_view text) { return load(text).topology; }

}  // namespace sccl::topology
