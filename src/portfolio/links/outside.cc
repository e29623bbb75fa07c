#include "portfolio/links/outside.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "schedule/edge_index.h"
#include "topology/presets.h"

namespace sccl::portfolio {
namespace {

constexpr double kLeastLanes = 100;  // of the slowest link: rates are rounded to a hundredth of it

}  // namespace

topology::Topology with_outside(const topology::Topology& links, double nic_gbytes_per_s) {
  return with_outside(links, std::vector<double>(static_cast<std::size_t>(links.ranks), nic_gbytes_per_s));
}

topology::Topology with_outside(const topology::Topology& links, std::span<const double> nic_gbytes_per_s) {
  std::vector<topology::Node> devices(static_cast<std::size_t>(links.ranks));
  std::iota(devices.begin(), devices.end(), 0);
  return with_outside(links, nic_gbytes_per_s, devices);
}

topology::Topology with_outside(const topology::Topology& links, std::span<const double> nic_gbytes_per_s,
                                std::span<const topology::Node> last_nodes) {
  topology::Topology one;
  one.name = links.name;
  one.ranks = links.ranks + 1;
  one.switches = links.switches;
  std::map<topology::Node, topology::Node> number;
  for (topology::Node node = 0; node < links.nodes(); ++node) number[node] = node < links.ranks ? node : node + 1;
  topology::copy_links(links, number, one);
  std::map<topology::Node, double> gbytes_per_s;  // by node of `one`
  for (std::size_t rank = 0; rank < nic_gbytes_per_s.size(); ++rank)
    if (nic_gbytes_per_s[rank] > 0) gbytes_per_s[number.at(last_nodes[rank])] += nic_gbytes_per_s[rank];
  for (const auto& [node, rate] : gbytes_per_s)
    for (const auto& [src, dst] : {std::pair(node, links.ranks), std::pair(links.ranks, node)})
      one.links.push_back({src, dst, 1, rate, 1, topology::LinkClass::net});
  double least = one.links.empty() ? 1 : one.links.front().gbytes_per_s;
  for (const topology::Link& link : one.links) least = std::min(least, link.gbytes_per_s);
  const double lanes_per_gbyte = kLeastLanes / least;
  const schedule::EdgeIndex edges(links);
  for (std::size_t set = 0; set < links.shared.size(); ++set)
    one.shared[set].lanes = static_cast<int>(
        std::lround(links.shared[set].lanes * edges.set_lane_gbytes_per_s(static_cast<int>(set)) * lanes_per_gbyte));
  for (topology::Link& link : one.links)
    link.lanes = static_cast<int>(std::lround(link.gbytes_per_s * lanes_per_gbyte));
  return one;
}

}  // namespace sccl::portfolio
