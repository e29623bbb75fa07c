#include "runtime/membership/hosts/host_topology.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "base/settings/log.h"
#include "runtime/membership/hosts/host_rails.h"
#include "topology/boxes.h"
#include "topology/formats/json.h"
#include "topology/system/system.h"

namespace sccl::runtime {
namespace {

// Where nobody tells: a short message of UCX over TCP between two processes that do not sleep.
constexpr double kAssumedLatencyUs = 5;

std::int32_t fastest_of(const std::string& interfaces) {
  std::int32_t fastest = 0;
  std::istringstream names(interfaces);
  for (std::string name; std::getline(names, name, ',');) fastest = std::max(fastest, mbits_per_s_of(name));
  return fastest;
}

nlohmann::json to_json(const HostLinksRecord& record) {
  const NetFigures& figures = record.figures;
  nlohmann::json json{{"device", figures.device},
                      {"name", figures.name},
                      {"mbits", figures.mbits_per_s},
                      {"latency", figures.latency_us},
                      {"pci", figures.busid}};
  const HostBox& box = record.box;
  if (!box.warnings.empty()) json["warnings"] = box.warnings;
  if (!box.links) return json;
  json["links"] = topology::to_json(*box.links);
  for (const topology::NicPlace& nic : box.nics)
    json["nics"].push_back({nic.name, nic.mbits_per_s, nic.node, nic.busid});
  return json;
}

// Throws if a field is missing or has another type.
HostLinksRecord record_of(const nlohmann::json& json) {
  HostLinksRecord record;
  NetFigures& figures = record.figures;
  figures.device = json.at("device").get<int>();
  figures.name = json.at("name").get<std::string>();
  figures.mbits_per_s = json.at("mbits").get<int>();
  figures.latency_us = json.at("latency").get<double>();
  figures.busid = json.at("pci").get<std::string>();
  if (figures.device < 0 || figures.mbits_per_s <= 0 || figures.mbits_per_s > kMostMbitsPerS ||
      !std::isfinite(figures.latency_us) || figures.latency_us <= 0)
    fail(ErrorCode::invalid_usage, "no speed");
  HostBox& box = record.box;
  box.warnings = json.value("warnings", std::vector<std::string>{});
  if (!json.contains("links")) return record;
  box.links = topology::from_json(json.at("links"));
  for (const nlohmann::json& nic : json.value("nics", nlohmann::json::array())) {
    topology::NicPlace& place = box.nics.emplace_back();
    place = {nic.at(0).get<std::string>(), nic.at(1).get<int>(), nic.at(2).get<int>(), nic.at(3).get<std::string>()};
    if (place.node < box.links->ranks || place.node >= box.links->nodes()) place.node = -1;
  }
  return record;
}

HostLinksRecord from_bytes(const Bytes& bytes, std::size_t rank) {
  const auto* const begin = reinterpret_cast<const char*>(bytes.data());
  try {
    return record_of(nlohmann::json::parse(begin, begin + bytes.size()));
  } catch (const std::exception& error) {
    fail(ErrorCode::invalid_usage, "rank {} told no way to the network ({}): use one library version on all ranks",
         rank, error.what());
  }
}

// The NIC at this place on PCI, else the first of the names "eth0,eth1" that the description has; null: none. Plugins
// name NICs as they like.
const topology::NicPlace* place_of(const HostBox& box, const NetFigures& figures) {
  for (const topology::NicPlace& nic : box.nics)
    if (!nic.busid.empty() && nic.busid == figures.busid) return &nic;
  std::istringstream list(figures.name);
  for (std::string name; std::getline(list, name, ',');)
    for (const topology::NicPlace& nic : box.nics)
      if (nic.name == name) return &nic;
  return nullptr;
}

// `records` of all ranks; half of the latency is at either end.
topology::Box box_of(const std::vector<Rank>& ranks, std::span<const HostLinksRecord> records, double latency_us) {
  const HostBox& told = records[static_cast<std::size_t>(ranks.front())].box;
  const int count = static_cast<int>(ranks.size());
  topology::Box box{told.links && told.links->ranks == count ? *told.links : topology::host(count), ranks, {}};
  std::map<int, std::size_t> nics;  // by device
  for (Rank local = 0; local < count; ++local) {
    const NetFigures& figures = records[static_cast<std::size_t>(ranks[static_cast<std::size_t>(local)])].figures;
    const auto [known, is_new] = nics.try_emplace(figures.device, box.nics.size());
    if (is_new) {
      const topology::NicPlace* const place = place_of(told, figures);
      // What the user's file says goes first.
      const bool is_told = place != nullptr && place->mbits_per_s > 0 && place->mbits_per_s <= kMostMbitsPerS;
      const int mbits_per_s = is_told ? place->mbits_per_s : figures.mbits_per_s;
      box.nics.push_back({mbits_per_s / 8e3, latency_us / 2, {}, place != nullptr ? place->node : -1});
    }
    box.nics[known->second].users.push_back(local);
  }
  return box;
}

// "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0" ends with it.
std::string busid_of(const std::string& pci_path) {
  const std::string last = pci_path.substr(pci_path.rfind('/') + 1);
  return last.find(':') == std::string::npos ? "" : topology::normal_busid(last);
}

}  // namespace

NetFigures figures_of(const net::Device& device, int number, const std::string& interfaces) {
  NetFigures figures{number, device.name, device.speed_mbits_per_s, device.latency_us};
  figures.busid = busid_of(device.pci_path);
  if (figures.mbits_per_s <= 0 || figures.mbits_per_s > kMostMbitsPerS) figures.mbits_per_s = fastest_of(interfaces);
  figures.is_assumed = figures.mbits_per_s <= 0;
  if (figures.is_assumed) figures.mbits_per_s = assumed_mbits_per_s();
  // Below what any network does: an engine that does not know says 0.
  if (!(figures.latency_us >= 0.1) || !std::isfinite(figures.latency_us)) figures.latency_us = kAssumedLatencyUs;
  return figures;
}

topology::Topology topology_of_hosts(const HostGroups& groups, std::span<const HostLinksRecord> records) {
  double latency_us = 0;
  for (const HostLinksRecord& one : records) latency_us = std::max(latency_us, one.figures.latency_us);
  std::vector<topology::Box> boxes;
  for (const std::vector<Rank>& ranks : groups.ranks) boxes.push_back(box_of(ranks, records, latency_us));
  return topology::join_boxes(std::to_string(groups.count()) + " hosts", boxes);
}

topology::Topology agree_on_host_links(const HostGroups& groups, Rank rank, const HostLinksRecord& mine,
                                       Bootstrap& bootstrap, Deadline deadline) {
  const std::string text = to_json(mine).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (const NetFigures& own = mine.figures; own.is_assumed)
    log::info(
        log::Subsystem::init,
        "rank {}: the speed of {} is unknown, taken as {} Gbit/s: set it by SCCL_NIC_MBITS, or in a NCCL_TOPO_FILE",
        rank, own.name, own.mbits_per_s / 1000.0);
  std::vector<HostLinksRecord> records;
  for (const Bytes& bytes : bootstrap.all_gather(std::as_bytes(std::span(text)), deadline))
    records.push_back(from_bytes(bytes, records.size()));
  for (std::size_t host = 0; host < groups.names.size(); ++host)
    for (const std::string& line : records[static_cast<std::size_t>(groups.ranks[host].front())].box.warnings)
      log::warn("rank {}: host {}: {}", rank, groups.names[host], line);
  return topology_of_hosts(groups, records);
}

}  // namespace sccl::runtime
