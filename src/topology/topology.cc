#include "topology/topology.h"

#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"

namespace sccl::topology {
namespace {

constexpr std::array<std::string_view, 5> kLinkClasses{"nvlink", "xgmi", "pcie", "shm", "net"};
constexpr std::array<std::string_view, 6> kSwitchKinds{"unknown", "nvswitch", "pcie", "cpu", "nic", "fabric"};

// No links are like that, and times and rates of packings on such ones have no representation.
constexpr double kLeastRate = 1e-6;  // GB/s
constexpr double kMostRate = 1e6;
constexpr double kMostLatency = 1e9;  // us

void validate_link(const Topology& topology, const Link& link) {
  const auto in_range = [&](Node node) { return node >= 0 && node < topology.nodes(); };
  if (!in_range(link.src) || !in_range(link.dst) || link.src == link.dst)
    fail(ErrorCode::invalid_argument,
         "topology '{}': link {}->{} does not join two different nodes of 0..{}: correct src and dst", topology.name,
         link.src, link.dst, topology.nodes() - 1);
  if (link.lanes < 1)
    fail(ErrorCode::invalid_argument, "topology '{}': link {}->{} has {} lanes: give at least 1", topology.name,
         link.src, link.dst, link.lanes);
  if (!(link.gbytes_per_s >= 0) || !(link.alpha_us >= 0) || !std::isfinite(link.gbytes_per_s + link.alpha_us))
    fail(ErrorCode::invalid_argument,
         "topology '{}': link {}->{} has gbytes_per_s {} and alpha_us {}: both must be finite and not negative",
         topology.name, link.src, link.dst, link.gbytes_per_s, link.alpha_us);
  const bool has_rate = link.gbytes_per_s > 0;  // only distances count where links have none
  if ((has_rate && link.gbytes_per_s < kLeastRate) || link.gbytes_per_s > kMostRate || link.alpha_us > kMostLatency)
    fail(ErrorCode::invalid_argument,
         "topology '{}': link {}->{} has gbytes_per_s {} and alpha_us {}: give {} to {} GB/s and at most {} us",
         topology.name, link.src, link.dst, link.gbytes_per_s, link.alpha_us, kLeastRate, kMostRate, kMostLatency);
}

}  // namespace

std::string_view name(LinkClass link_class) { return kLinkClasses[static_cast<std::size_t>(link_class)]; }

std::string_view name(SwitchKind kind) { return kSwitchKinds[static_cast<std::size_t>(kind)]; }

SwitchKind switch_kind_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kSwitchKinds.size(); ++i)
    if (kSwitchKinds[i] == name) return static_cast<SwitchKind>(i);
  return SwitchKind::unknown;
}

LinkClass link_class_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kLinkClasses.size(); ++i)
    if (kLinkClasses[i] == name) return static_cast<LinkClass>(i);
  fail(ErrorCode::invalid_argument, "unknown link class '{}': use nvlink, xgmi, pcie, shm or net", name);
}

int Topology::lanes(Node src, Node dst) const {
  int total = 0;
  for (const Link& link : links)
    if (link.src == src && link.dst == dst) total += link.lanes;
  return total;
}

void validate(const Topology& topology) {
  if (topology.ranks < 1 || topology.switches < 0)
    fail(ErrorCode::invalid_argument, "topology '{}' has {} ranks and {} switches: give at least one rank",
         topology.name, topology.ranks, topology.switches);
  if (!topology.switch_kinds.empty() && topology.switch_kinds.size() != static_cast<std::size_t>(topology.switches))
    fail(ErrorCode::invalid_argument, "topology '{}' has {} switches and tells the kinds of {}: tell all or none",
         topology.name, topology.switches, topology.switch_kinds.size());
  if (!topology.devices.empty() && topology.devices.size() != static_cast<std::size_t>(topology.ranks))
    fail(ErrorCode::invalid_argument, "topology '{}' has {} ranks and names {} devices: name one for each rank",
         topology.name, topology.ranks, topology.devices.size());
  std::int64_t lanes = 0;
  for (const Link& link : topology.links) {
    validate_link(topology, link);
    lanes += link.lanes;
  }
  if (lanes > std::numeric_limits<int>::max())
    fail(ErrorCode::invalid_argument, "topology '{}' has {} lanes in all: give fewer, larger ones", topology.name,
         lanes);
  std::set<std::pair<Node, Node>> edges;
  if (!topology.shared.empty())
    for (const Link& link : topology.links) edges.emplace(link.src, link.dst);
  for (const SharedSet& set : topology.shared) {
    if (set.lanes < 1)
      fail(ErrorCode::invalid_argument, "topology '{}': a shared set has {} lanes: give at least 1", topology.name,
           set.lanes);
    for (const auto& [src, dst] : set.links)
      if (!edges.contains({src, dst}))
        fail(ErrorCode::invalid_argument, "topology '{}': a shared set names link {}->{}, which does not exist",
             topology.name, src, dst);
  }
}

Topology host(int ranks) {
  // Assumed figures of one core copying through shared memory; a measurement (measurement.h) replaces them.
  constexpr double kAssumedGbytesPerS = 8.0;
  constexpr double kAssumedAlphaUs = 0.4;
  Topology topology;
  topology.name = fmt::format("host:{}", ranks);
  topology.ranks = ranks;
  for (Rank src = 0; src < ranks; ++src)
    for (Rank dst = 0; dst < ranks; ++dst)
      if (src != dst) topology.links.push_back({src, dst, 1, kAssumedGbytesPerS, kAssumedAlphaUs, LinkClass::shm});
  return topology;
}

}  // namespace sccl::topology
