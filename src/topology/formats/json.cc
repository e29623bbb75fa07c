#include "topology/formats/json.h"

#include <utility>

#include "base/error.h"
#include "base/settings/printable.h"

namespace sccl::topology {
namespace {

using nlohmann::json;

constexpr int kMaxNodes = 65536;
constexpr std::size_t kMaxLinks = 1u << 22;

int integer(const json& value) { return topology::integer(value, "topology"); }

int integer_or(const json& object, const char* name, int fallback) {
  return object.contains(name) ? integer(object.at(name)) : fallback;
}

Link link_from_json(const json& entry) {
  Link link;
  link.src = integer(entry.at("src"));
  link.dst = integer(entry.at("dst"));
  link.lanes = integer_or(entry, "lanes", 1);
  link.gbytes_per_s = entry.value("gbytes_per_s", 0.0);
  link.alpha_us = entry.value("alpha_us", 0.0);
  link.link_class = link_class_from_name(entry.value("class", "shm"));
  if (entry.value("source", "assumed") == "measured") link.source = Source::measured;
  return link;
}

SharedSet shared_from_json(const json& entry) {
  SharedSet set;
  set.lanes = integer(entry.at("lanes"));
  for (const json& pair : entry.at("links")) set.links.emplace_back(integer(pair.at(0)), integer(pair.at(1)));
  return set;
}

Topology parse(const json& source) {
  Topology topology;
  topology.name = printable(source.value("name", "unnamed"));
  topology.ranks = integer(source.at("ranks"));
  topology.switches = integer_or(source, "switches", 0);
  if (topology.ranks > kMaxNodes || topology.switches > kMaxNodes || source.at("links").size() > kMaxLinks)
    fail(ErrorCode::invalid_argument, "topology '{}' has {} ranks, {} switches and {} links: more than is supported",
         topology.name, topology.ranks, topology.switches, source.at("links").size());
  for (const json& entry : source.at("links")) topology.links.push_back(link_from_json(entry));
  if (source.contains("shared"))
    for (const json& entry : source.at("shared")) topology.shared.push_back(shared_from_json(entry));
  if (source.contains("switch_kinds"))
    for (const json& kind : source.at("switch_kinds"))
      topology.switch_kinds.push_back(switch_kind_from_name(kind.get<std::string>()));
  if (source.contains("devices"))
    for (const json& device : source.at("devices")) topology.devices.push_back(integer(device));
  return topology;
}

}  // namespace

int integer(const nlohmann::json& value, std::string_view format) {
  const bool fits = value.is_number_unsigned()
                        ? std::in_range<int>(value.get<std::uint64_t>())
                        : value.is_number_integer() && std::in_range<int>(value.get<std::int64_t>());
  if (!fits)
    fail(ErrorCode::invalid_argument, "{}: {} is given where a small integer is needed", format,
         value.dump(-1, ' ', true));
  return static_cast<int>(value.get<std::int64_t>());
}

nlohmann::json to_json(const Topology& topology) {
  json links = json::array();
  for (const Link& link : topology.links) {
    links.push_back({{"src", link.src},
                     {"dst", link.dst},
                     {"lanes", link.lanes},
                     {"gbytes_per_s", link.gbytes_per_s},
                     {"alpha_us", link.alpha_us},
                     {"class", name(link.link_class)}});
    if (link.source == Source::measured) links.back()["source"] = "measured";
  }
  json shared = json::array();
  for (const SharedSet& set : topology.shared) {
    json pairs = json::array();
    for (const auto& [src, dst] : set.links) pairs.push_back({src, dst});
    shared.push_back({{"lanes", set.lanes}, {"links", pairs}});
  }
  json result = {{"name", topology.name},
                 {"ranks", topology.ranks},
                 {"switches", topology.switches},
                 {"links", links},
                 {"shared", shared}};
  for (const SwitchKind kind : topology.switch_kinds) result["switch_kinds"].push_back(name(kind));
  if (!topology.devices.empty()) result["devices"] = topology.devices;
  return result;
}

Topology from_json(const nlohmann::json& source) {
  try {
    Topology topology = parse(source);
    validate(topology);
    return topology;
  } catch (const json::exception& error) {
    fail(ErrorCode::invalid_argument, "topology: {}: see the topology format in the documentation", error.what());
  }
}

}  // namespace sccl::topology
