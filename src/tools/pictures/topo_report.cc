#include "tools/pictures/topo_report.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "topology/formats/json.h"
#include "topology/graph/metrics.h"
#include "topology/symmetry/automorphisms.h"
#include "topology/system/paths.h"

namespace sccl::tools {
namespace {

using namespace topology;

constexpr int kWidestMatrix = 32;           // ranks that fit side by side on a terminal
constexpr std::size_t kMostCounted = 2000;  // automorphisms
constexpr int kMostRanksWithPaths = 512;    // in JSON; paths are the square of the ranks

std::string text_of(const Ratio& ratio) {
  return ratio.denominator() == 1 ? std::to_string(ratio.numerator())
                                  : fmt::format("{}/{}", ratio.numerator(), ratio.denominator());
}

std::string range(double low, double high) {
  return low == high ? fmt::format("{:.4g}", low) : fmt::format("{:.4g} to {:.4g}", low, high);
}

std::string text_of(const AutomorphismCount& count) {
  return count.complete ? std::to_string(count.found) : fmt::format("more than {}", count.found);
}

std::string cell(const Path& path) {
  const std::string_view name = info(path.type).name;
  switch (path.type) {
    case PathType::nvlink:
    case PathType::xgmi:
    case PathType::hops:
      return fmt::format("{}{}", name, path.lanes);
    default:
      return std::string(name);
  }
}

std::string row_name(const Topology& topology, Rank rank) {
  if (topology.devices.empty()) return std::to_string(rank);
  return fmt::format("{} ({})", rank, topology.devices[static_cast<std::size_t>(rank)]);
}

std::string matrix_text(const Machine& machine) {
  const Topology& topology = machine.topology;
  const auto matrix = path_matrix(topology);
  const std::vector<NicPaths> nics = machine.system ? nic_paths(*machine.system) : std::vector<NicPaths>{};
  std::string text = fmt::format("{:>10}", topology.devices.empty() ? "rank" : "rank (dev)");
  for (Rank rank = 0; rank < topology.ranks; ++rank) text += fmt::format("{:>6}", rank);
  for (std::size_t nic = 0; nic < nics.size(); ++nic) text += fmt::format("{:>6}", fmt::format("nic{}", nic));
  text += '\n';
  std::set<PathType> used;
  for (Rank src = 0; src < topology.ranks; ++src) {
    text += fmt::format("{:>10}", row_name(topology, src));
    for (const Path& path : matrix[static_cast<std::size_t>(src)]) {
      text += fmt::format("{:>6}", cell(path));
      used.insert(path.type);
    }
    for (const NicPaths& nic : nics) {
      const PathType type = nic.to_rank[static_cast<std::size_t>(src)];
      text += fmt::format("{:>6}", info(type).name);
      used.insert(type);
    }
    text += '\n';
  }
  text += '\n';
  for (const PathType type : used) {
    if (type == PathType::same) continue;
    const bool counts = type == PathType::nvlink || type == PathType::xgmi;
    text += fmt::format("{:>9}  {}{}\n", info(type).name, info(type).meaning,
                        counts ? "; the number is that of lanes" : "");
  }
  for (std::size_t nic = 0; nic < nics.size(); ++nic)
    text += fmt::format("{:>9}  {}, {:g} Gbit/s\n", fmt::format("nic{}", nic), nics[nic].name, nics[nic].gbits_per_s);
  return text;
}

}  // namespace

std::vector<std::string> describe_links(const Topology& topology) {
  struct Group {
    int links = 0;
    std::set<int> lanes;
    double least_gbytes_per_s = 0, most_gbytes_per_s = 0, least_alpha_us = 0, most_alpha_us = 0;
  };
  std::map<std::pair<LinkClass, Source>, Group> groups;
  for (const Link& link : topology.links) {
    Group& group = groups[{link.link_class, link.source}];
    const double of_lane = link.gbytes_per_s / link.lanes;
    const bool first = group.links++ == 0;
    group.lanes.insert(link.lanes);
    group.least_gbytes_per_s = first ? of_lane : std::min(group.least_gbytes_per_s, of_lane);
    group.most_gbytes_per_s = std::max(group.most_gbytes_per_s, of_lane);
    group.least_alpha_us = first ? link.alpha_us : std::min(group.least_alpha_us, link.alpha_us);
    group.most_alpha_us = std::max(group.most_alpha_us, link.alpha_us);
  }
  std::vector<std::string> lines;
  for (const auto& [key, group] : groups) {
    const bool one_lane = group.lanes == std::set<int>{1};
    lines.push_back(fmt::format("{}: {} links{}, {} GB/s a lane, {} us ({})", name(key.first), group.links,
                                one_lane ? "" : fmt::format(" of {} lanes", fmt::join(group.lanes, " or ")),
                                range(group.least_gbytes_per_s, group.most_gbytes_per_s),
                                range(group.least_alpha_us, group.most_alpha_us),
                                key.second == Source::measured ? "measured" : "assumed"));
  }
  return lines;
}

std::string describe_bounds(const Topology& topology) {
  const std::optional<int> hops = diameter(topology);
  if (topology.ranks > 1 && !hops) return "not every rank reaches every other";
  const std::optional<Ratio> bound = inverse_bisection_bound(topology, Collective::allgather);
  return fmt::format("diameter {}; AllGather R/C at least {}; automorphisms: {}", *hops, bound ? text_of(*bound) : "?",
                     text_of(count_automorphisms(topology, kMostCounted)));
}

std::string topo_table(const Machine& machine) {
  const Topology& topology = machine.topology;
  std::string text = fmt::format("{}: {} ranks, {} switches\n", topology.name, topology.ranks, topology.switches);
  for (const std::string& line : describe_links(topology)) text += fmt::format("  {}\n", line);
  for (const SharedSet& set : topology.shared)
    text += fmt::format("  {} links share {} lanes\n", set.links.size(), set.lanes);
  text += fmt::format("  {}\n\n", describe_bounds(topology));
  if (topology.ranks <= kWidestMatrix) return text + matrix_text(machine);
  if (topology.ranks <= kMostRanksWithPaths)
    return text + fmt::format("(the matrix of {} ranks is left out; --json has it)\n", topology.ranks);
  return text + fmt::format("(the matrix of {} ranks is left out; --devices shows a part)\n", topology.ranks);
}

namespace {

nlohmann::json paths_json(const Topology& topology) {
  nlohmann::json paths = nlohmann::json::array();
  for (const auto& row : path_matrix(topology)) {
    nlohmann::json& out = paths.emplace_back(nlohmann::json::array());
    for (const Path& path : row) out.push_back(cell(path));
  }
  return paths;
}

}  // namespace

nlohmann::json topo_json(const Machine& machine) {
  const Topology& topology = machine.topology;
  nlohmann::json json = to_json(topology);
  const std::optional<int> hops = diameter(topology);
  json["diameter"] = hops ? nlohmann::json(*hops) : nlohmann::json(nullptr);
  for (const Collective collective : {Collective::allgather, Collective::reducescatter, Collective::allreduce,
                                      Collective::broadcast, Collective::alltoall})
    if (const auto bound = inverse_bisection_bound(topology, collective))
      json["rounds_per_chunk_bounds"][std::string(sccl::info(collective).name)] = text_of(*bound);
  const AutomorphismCount symmetries = count_automorphisms(topology, kMostCounted);
  json["automorphisms"] = {{"found", symmetries.found}, {"complete", symmetries.complete}};
  json["canonical_key"] = canonical_form(topology).key;
  if (topology.ranks <= kMostRanksWithPaths) json["paths"] = paths_json(topology);
  if (machine.system)
    for (const NicPaths& nic : nic_paths(*machine.system)) {
      nlohmann::json to_rank = nlohmann::json::array();
      for (const PathType type : nic.to_rank) to_rank.push_back(info(type).name);
      json["nics"].push_back({{"name", nic.name}, {"gbits_per_s", nic.gbits_per_s}, {"paths", std::move(to_rank)}});
    }
  return json;
}

std::string classes_table(const std::vector<SubsetClass>& classes) {
  std::string text = fmt::format("{} classes\n{:>6} {:>8}  {}\n", classes.size(), "size", "subsets", "first");
  for (const SubsetClass& one : classes)
    text += fmt::format("{:>6} {:>8}  {}\n", one.devices.size(), one.subsets, fmt::join(one.devices, ","));
  return text;
}

nlohmann::json classes_json(const Topology& topology, const std::vector<SubsetClass>& classes) {
  nlohmann::json list = nlohmann::json::array();
  for (const SubsetClass& one : classes)
    list.push_back(
        {{"size", one.devices.size()}, {"devices", one.devices}, {"subsets", one.subsets}, {"key", one.key}});
  return {{"topology", topology.name}, {"count", classes.size()}, {"classes", std::move(list)}};
}

std::string allocations_table(const std::vector<portfolio::Allocation>& allocations) {
  std::string text = fmt::format("{:>10}  {:>5}  {:>12}  one of them\n", "GB/s", "hosts", "ways");
  for (const portfolio::Allocation& one : allocations)
    text += fmt::format("{:>10.2f}  {:>5}  {:>12.0f}  {}{}\n", one.gbytes_per_s, one.hosts, one.ways,
                        fmt::join(one.devices, ","), one.gbytes_per_s > 0 ? "" : "  (no links join them)");
  return text;
}

nlohmann::json allocations_json(const Topology& topology, const std::vector<portfolio::Allocation>& allocations) {
  nlohmann::json list = nlohmann::json::array();
  for (const portfolio::Allocation& one : allocations)
    list.push_back(
        {{"gbytes_per_s", one.gbytes_per_s}, {"hosts", one.hosts}, {"ways", one.ways}, {"devices", one.devices}});
  return {{"topology", topology.name}, {"best", std::move(list)}};
}

}  // namespace sccl::tools
