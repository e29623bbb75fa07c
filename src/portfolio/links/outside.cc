#include "portfolio/links/outside.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

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
  topology::Topology one;
  one.name = links.name;
  one.ranks = links.ranks + 1;
  one.switches = links.switches;
  std::map<topology::Node, topology::Node> number;
  for (topology::Node node = 0; node < links.nodes(); ++node) number[node] = node < links.ranks ? node : node + 1;
  topology::copy_links(links, number, one);
  for (Rank rank = 0; rank < links.ranks; ++rank)
    for (const auto& [src, dst] : {std::pair(rank, links.ranks), std::pair(links.ranks, rank)})
      if (const double rate = nic_gbytes_per_s[static_cast<std::size_t>(rank)]; rate > 0)
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
