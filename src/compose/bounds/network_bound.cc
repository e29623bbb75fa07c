#include "compose/bounds/network_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "compose/bounds/parts_bound.h"
#include "topology/graph/max_flow.h"

namespace sccl::compose {
namespace {

using topology::Amount;

constexpr std::size_t kMostHosts = 64;
constexpr std::size_t kMostNodes = 1024;
constexpr double kBytesPerUs = 1e3;      // at one GB/s
constexpr double kAmountPerGByte = 1e3;  // flows are computed in MB/s

std::size_t at(int index) { return static_cast<std::size_t>(index); }

enum class Direction : std::uint8_t { with_links, against_links };

struct Cut {
  std::vector<bool> inside;  // by host
  double gbytes_per_s = 0;   // from the hosts inside to the others
};

// The hosts and the switches between them.
class HostGraph {
 public:
  HostGraph(const topology::Topology& topology, const topology::Cluster& cluster, Direction direction)
      : hosts_(static_cast<int>(cluster.hosts.size())) {
    std::vector<int> node_of(at(topology.nodes()), -1);
    for (std::size_t host = 0; host < cluster.nodes.size(); ++host)
      for (const topology::Node node : cluster.nodes[host]) node_of[at(node)] = static_cast<int>(host);
    nodes_ = hosts_;
    for (int& node : node_of)
      if (node < 0) node = nodes_++;
    for (const topology::Link& link : topology.links) {
      const int src = node_of[at(link.src)];
      const int dst = node_of[at(link.dst)];
      if (src != dst)
        rates_[direction == Direction::with_links ? std::pair(src, dst) : std::pair(dst, src)] += link.gbytes_per_s;
    }
    for (const auto& [ends, gbytes_per_s] : rates_)
      arcs_.push_back({ends.first, ends.second, static_cast<Amount>(std::llround(gbytes_per_s * kAmountPerGByte))});
    for (const auto& host : cluster.hosts) data_.push_back(static_cast<Amount>(host.size()));
  }

  std::size_t nodes() const { return at(nodes_); }

  // Most of what a set of hosts has for what leaves it: AllGather's cut.
  std::optional<Cut> worst_for_all() const {
    std::optional<Cut> worst;
    Amount data = 1;  // the guess: so much data for so much capacity
    Amount capacity = 0;
    for (const topology::CapacityArc& arc : arcs_) capacity += arc.capacity;
    Amount all = 0;
    for (const Amount one : data_) all += one;
    for (bool found = true; found;) {
      found = false;
      for (int sink = 0; sink < hosts_ && !found; ++sink) {
        std::vector<topology::CapacityArc> arcs = arcs_;
        for (topology::CapacityArc& arc : arcs) arc.capacity *= data;
        for (int host = 0; host < hosts_; ++host) arcs.push_back({nodes_, host, data_[at(host)] * capacity});
        const topology::FlowCut flow = topology::minimum_cut(nodes_ + 1, arcs, nodes_, sink);
        if (flow.value >= all * capacity) continue;
        data = 0;
        for (int host = 0; host < hosts_; ++host) data += flow.source_side[at(host)] ? data_[at(host)] : 0;
        capacity = leaving(flow.source_side);
        if (data <= 0 || capacity <= 0) return std::nullopt;
        worst = cut(flow.source_side);
        found = true;
      }
    }
    return worst;
  }

  // The least capacity from a host to some other one.
  Cut least_from(int source) const {
    std::optional<topology::FlowCut> least;
    for (int sink = 0; sink < hosts_; ++sink) {
      if (sink == source) continue;
      topology::FlowCut flow = topology::minimum_cut(nodes_, arcs_, source, sink);
      if (!least || flow.value < least->value) least = std::move(flow);
    }
    return cut(least->source_side);
  }

 private:
  Amount leaving(const std::vector<bool>& side) const {
    Amount sum = 0;
    for (const topology::CapacityArc& arc : arcs_)
      if (side[at(arc.src)] && !side[at(arc.dst)]) sum += arc.capacity;
    return sum;
  }

  Cut cut(const std::vector<bool>& side) const {
    Cut result{{side.begin(), side.begin() + hosts_}, 0};
    for (const auto& [ends, gbytes_per_s] : rates_)
      if (side[at(ends.first)] && !side[at(ends.second)]) result.gbytes_per_s += gbytes_per_s;
    return result;
  }

  int hosts_;
  int nodes_ = 0;
  std::map<std::pair<int, int>, double> rates_;
  std::vector<topology::CapacityArc> arcs_;
  std::vector<Amount> data_;
};

}  // namespace

std::vector<Bound> bounds_of_network(const topology::Topology& topology, const topology::Cluster& cluster,
                                     Collective collective, Rank root, double bytes) {
  std::vector<Bound> result;
  if (cluster.has_one_leaf() || cluster.hosts.size() < 3 || cluster.hosts.size() > kMostHosts) return result;
  const bool rooted = info(collective).rooted;
  const int root_host = rooted ? cluster.host_of[at(root)] : 0;
  const bool whole =
      collective == Collective::allreduce || collective == Collective::broadcast || collective == Collective::reduce;
  for (const Direction direction : {Direction::with_links, Direction::against_links}) {
    const HostGraph graph(topology, cluster, direction);
    if (graph.nodes() > kMostNodes) return result;
    const std::optional<Cut> cut = whole ? graph.least_from(root_host) : graph.worst_for_all();
    if (!cut || !(cut->gbytes_per_s > 0)) continue;
    double ranks = 0;
    std::size_t hosts = 0;
    Rank first = -1;
    for (std::size_t host = 0; host < cluster.hosts.size(); ++host) {
      if (!cut->inside[host]) continue;
      ranks += static_cast<double>(cluster.hosts[host].size());
      if (hosts++ == 0) first = cluster.hosts[host].front();
    }
    const Demand wanted = demand(collective, ranks, topology.ranks, rooted && cut->inside[at(root_host)]);
    const bool out = direction == Direction::with_links;
    const double us = (out ? wanted.out : wanted.in) * bytes / (cut->gbytes_per_s * kBytesPerUs);
    if (us > 0)
      result.push_back({us, fmt::format("{} hosts, with that of rank {}: the links between them and the others carry "
                                        "{:.5g} GB/s {}",
                                        hosts, first, cut->gbytes_per_s, out ? "out" : "in")});
  }
  return result;
}

}  // namespace sccl::compose
