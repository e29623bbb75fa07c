#include "topology/symmetry/networks.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "base/error.h"

namespace sccl::topology {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

std::string list(const std::vector<Rank>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i == 8) return text + ", ...";
    text += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
  }
  return text;
}

using Neighbours = std::vector<std::vector<Node>>;  // by node, of switches of networks

std::vector<bool> reached(const Neighbours& next, Node from) {
  std::vector<bool> result(next.size(), false);
  std::vector<Node> waiting{from};
  result[at(from)] = true;
  while (!waiting.empty()) {
    const Node node = waiting.back();
    waiting.pop_back();
    for (const Node other : next[at(node)])
      if (!result[at(other)]) {
        result[at(other)] = true;
        waiting.push_back(other);
      }
  }
  return result;
}

// Hosts that share networks, directly or over other hosts, have the same number.
std::vector<int> joined_hosts(const Cluster& cluster) {
  std::vector<int> leader(cluster.hosts.size());
  std::iota(leader.begin(), leader.end(), 0);
  const auto find = [&](int host) {
    while (leader[at(host)] != host) host = leader[at(host)] = leader[at(leader[at(host)])];
    return host;
  };
  std::vector<int> host_on(cluster.network_of.size(), -1);  // by network: one of its hosts
  for (Rank rank = 0; rank < cluster.ranks(); ++rank) {
    const int network = cluster.network_of[at(rank)];
    if (network < 0) continue;
    int& known = host_on[at(network)];
    if (known < 0) known = cluster.host_of[at(rank)];
    leader[at(find(known))] = find(cluster.host_of[at(rank)]);
  }
  std::vector<int> result;
  for (std::size_t host = 0; host < leader.size(); ++host) result.push_back(find(static_cast<int>(host)));
  return result;
}

}  // namespace

std::vector<int> networks_of(const Topology& topology, const Cluster& cluster) {
  std::vector<int> result(cluster.attachments.size(), -1);
  const std::vector<bool> network = network_switches(topology, cluster);
  Neighbours next(network.size());
  Neighbours previous(network.size());
  for (const Link& link : topology.links)
    if (network[at(link.src)] && network[at(link.dst)]) {
      next[at(link.src)].push_back(link.dst);
      previous[at(link.dst)].push_back(link.src);
    }
  int count = 0;
  for (std::size_t first = 0; first < result.size(); ++first) {
    if (result[first] >= 0 || !cluster.attachments[first].attached()) continue;
    const Node leaf = cluster.attachments[first].leaf;
    const std::vector<bool> from = reached(next, leaf);
    const std::vector<bool> to = reached(previous, leaf);
    for (std::size_t rank = first; rank < result.size(); ++rank) {
      const Attachment& one = cluster.attachments[rank];
      if (result[rank] < 0 && one.attached() && from[at(one.leaf)] && to[at(one.leaf)]) result[rank] = count;
    }
    ++count;
  }
  return result;
}

bool Cluster::has_one_network() const {
  return std::ranges::none_of(network_of, [](int network) { return network > 0; });
}

void require_network(const Topology& topology, const Cluster& cluster) {
  if (cluster.hosts.size() < 2) return;
  for (std::size_t host = 0; host < cluster.hosts.size(); ++host)
    if (cluster.ports(static_cast<int>(host)).empty())
      fail(ErrorCode::invalid_argument,
           "topology '{}': no NIC joins the host of ranks {} to the other {} hosts: add a link of class net from one "
           "of its devices or switches",
           topology.name, list(cluster.hosts[host]), cluster.hosts.size() - 1);
  const std::vector<int> joined = joined_hosts(cluster);
  const auto apart = std::ranges::find_if(joined, [&](int one) { return one != joined.front(); });
  if (apart == joined.end()) return;
  const std::vector<Rank>& host = cluster.hosts[static_cast<std::size_t>(apart - joined.begin())];
  const auto leaf = [&](const std::vector<Rank>& ranks) {
    const auto found = std::ranges::find_if(ranks, [&](Rank rank) { return cluster.attachments[at(rank)].attached(); });
    return cluster.attachments[at(*found)].leaf;
  };
  fail(ErrorCode::invalid_argument,
       "topology '{}': the network does not join the host of ranks {} with that of rank {}: add links between their "
       "switches, {} and {}",
       topology.name, list(host), cluster.hosts.front().front(), leaf(host), leaf(cluster.hosts.front()));
}

}  // namespace sccl::topology
