#include "portfolio/outside.h"

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
  topology::Topology one;
  one.name = links.name;
  one.ranks = links.ranks + 1;
  one.switches = links.switches;
  std::map<topology::Node, topology::Node> number;
  for (topology::Node node = 0; node < links.nodes(); ++node) number[node] = node < links.ranks ? node : node + 1;
  topology::copy_links(links, number, one);
  double least = nic_gbytes_per_s;
  for (const topology::Link& link : links.links) least = std::min(least, link.gbytes_per_s);
  const double lanes_per_gbyte = kLeastLanes / least;
  for (Rank rank = 0; rank < links.ranks; ++rank)
    for (const auto& [src, dst] : {std::pair(rank, links.ranks), std::pair(links.ranks, rank)})
      one.links.push_back({src, dst, 1, nic_gbytes_per_s, 1, topology::LinkClass::net});
  const schedule::EdgeIndex edges(links);
  for (std::size_t set = 0; set < links.shared.size(); ++set)
    one.shared[set].lanes = static_cast<int>(
        std::lround(links.shared[set].lanes * edges.set_lane_gbytes_per_s(static_cast<int>(set)) * lanes_per_gbyte));
  for (topology::Link& link : one.links)
    link.lanes = static_cast<int>(std::lround(link.gbytes_per_s * lanes_per_gbyte));
  return one;
}

}  // namespace sccl::portfolio
