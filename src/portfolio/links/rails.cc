#include "portfolio/links/rails.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "portfolio/links/shares.h"

namespace sccl::portfolio {
namespace {

using topology::Node;

constexpr int kMostPorts = 32;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

Node leaf_of(const topology::Cluster& cluster, std::size_t host, int port) {
  return cluster.attachments[at(cluster.hosts[host][at(port)])].leaf;
}

// By host and position: the leaf switch; where there are several networks, the number of the network, which no path
// leaves.
std::vector<std::vector<int>> rails_of(const topology::Cluster& cluster) {
  const bool one_network = cluster.has_one_network();
  std::vector<std::vector<int>> rails;
  for (const std::vector<Rank>& ranks : cluster.hosts) {
    rails.emplace_back();
    for (const Rank rank : ranks)
      rails.back().push_back(one_network ? cluster.attachments[at(rank)].leaf : cluster.network_of[at(rank)]);
  }
  return rails;
}

// By rail: what the host's NICs bring there.
std::map<int, double> rates_of_rails(const std::vector<int>& rail_of, const PortsOfHost& one) {
  std::map<int, double> rates;
  for (std::size_t local = 0; local < one.gbytes_per_s.size(); ++local)
    if (one.gbytes_per_s[local] > 0) rates[rail_of[local]] += one.gbytes_per_s[local];
  return rates;
}

// Ports on each of the rails in turn; on one rail in proportion to their NICs.
std::vector<int> ports_at(const std::vector<int>& rail_of, const std::vector<double>& gbytes_per_s,
                          const std::vector<int>& rails) {
  std::map<int, std::vector<int>> turns;
  const auto length = static_cast<int>(rails.size());
  int longest = 1;
  int even = 1;  // of use, and counted, only while it is small: 8 rails may have a multiple that no int holds
  for (const int rail : rails) {
    if (turns.contains(rail)) continue;
    std::vector<double> here = gbytes_per_s;
    for (std::size_t local = 0; local < here.size(); ++local)
      if (rail_of[local] != rail) here[local] = 0;
    turns[rail] = in_proportion(here);
    longest = std::max(longest, static_cast<int>(turns[rail].size()));
    if (length * even <= kMostPorts) even = std::lcm(even, static_cast<int>(turns[rail].size()));
  }
  const int rounds = length * even <= kMostPorts ? even : longest;
  std::map<int, std::size_t> next;
  std::vector<int> ports;
  for (int turn = 0; turn < length * rounds; ++turn) {
    const int rail = rails[at(turn % length)];
    const std::vector<int>& own = turns[rail];
    ports.push_back(own[next[rail]++ % own.size()]);
  }
  return ports;
}

}  // namespace

std::optional<std::vector<PortsOfHost>> ports_on_rails(const topology::Cluster& cluster,
                                                       const std::vector<PortsOfHost>& hosts) {
  const std::vector<std::vector<int>> rail_of = rails_of(cluster);
  std::map<int, double> common;  // what the weakest host has there
  bool several = false;
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    const std::map<int, double> rates = rates_of_rails(rail_of[host], hosts[host]);
    several = several || rates.size() > 1;
    if (host == 0) common = rates;
    std::erase_if(common, [&](const auto& one) { return !rates.contains(one.first); });
    for (auto& [rail, rate] : common) rate = std::min(rate, rates.at(rail));
  }
  if (common.empty() || !several) return std::nullopt;
  std::vector<int> rails;
  std::vector<double> shares;
  for (const auto& [rail, rate] : common) {
    rails.push_back(rail);
    shares.push_back(rate);
  }
  std::vector<int> turns;
  for (const int place : in_proportion(shares)) turns.push_back(rails[at(place)]);
  std::vector<PortsOfHost> result = hosts;
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    PortsOfHost& one = result[host];
    one.ports = ports_at(rail_of[host], one.gbytes_per_s, turns);
    for (std::size_t local = 0; local < one.gbytes_per_s.size(); ++local)
      if (std::ranges::count(one.ports, static_cast<int>(local)) == 0) one.gbytes_per_s[local] = 0;
  }
  return result;
}

bool rails_differ(const topology::Cluster& cluster, const std::vector<compose::Host>& hosts) {
  const auto leaf = [&](std::size_t host, std::size_t turn) {
    const std::vector<int>& ports = hosts[host].ports;
    return leaf_of(cluster, host, ports[turn % ports.size()]);
  };
  bool several = false;
  bool differ = false;
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    const std::size_t turns = std::max(hosts[host].ports.size(), hosts.front().ports.size());
    for (std::size_t turn = 0; turn < turns; ++turn) {
      several = several || leaf(host, turn) != leaf(host, 0);
      differ = differ || leaf(host, turn) != leaf(0, turn);
    }
  }
  return several && differ;
}

double busiest_of_ring(const topology::Cluster& cluster, topology::NetworkWays& ways,
                       const std::vector<PortsOfHost>& hosts, const std::vector<int>& order,
                       const std::function<double(const topology::Edge&)>& us_per_byte) {
  std::map<topology::Edge, double> bytes;
  for (std::size_t place = 0; place < order.size(); ++place) {
    const std::size_t host = at(order[place]);
    const std::size_t next = at(order[(place + 1) % order.size()]);
    const std::vector<int>& from = hosts[host].ports;
    const std::vector<int>& to = hosts[next].ports;
    const std::size_t turns = std::max(from.size(), to.size());
    const double part = 1.0 / static_cast<double>(turns);
    for (std::size_t turn = 0; turn < turns; ++turn) {
      const int out = from[turn % from.size()];
      const int in = to[turn % to.size()];
      for (const auto& edge : cluster.attachments[at(cluster.hosts[host][at(out)])].up) bytes[edge] += part;
      for (const auto& edge : ways.way(leaf_of(cluster, host, out), leaf_of(cluster, next, in))) bytes[edge] += part;
      for (const auto& edge : cluster.attachments[at(cluster.hosts[next][at(in)])].down) bytes[edge] += part;
    }
  }
  double most = 0;
  for (const auto& [edge, load] : bytes) most = std::max(most, load * us_per_byte(edge));
  return most;
}

std::vector<int> order_along_network(const topology::Topology& topology, const topology::Cluster& cluster) {
  const std::vector<bool> network = topology::network_switches(topology, cluster);
  std::vector<std::vector<std::pair<double, Node>>> next(network.size());  // the fastest first
  for (const topology::Link& link : topology.links)
    if (network[at(link.src)] && network[at(link.dst)]) next[at(link.src)].emplace_back(-link.gbytes_per_s, link.dst);
  for (auto& links : next) std::sort(links.begin(), links.end());
  std::vector<std::vector<int>> hosts_at(network.size());
  for (std::size_t host = 0; host < cluster.hosts.size(); ++host)
    for (const Rank rank : cluster.hosts[host])
      if (const Node leaf = cluster.attachments[at(rank)].leaf; leaf >= 0)
        hosts_at[at(leaf)].push_back(static_cast<int>(host));
  std::vector<bool> passed(network.size(), false);
  std::vector<bool> named(cluster.hosts.size(), false);
  std::vector<int> order;
  const auto walk = [&](Node start) {
    std::vector<std::pair<Node, std::size_t>> way{{start, 0}};  // with the number of links tried
    while (!way.empty()) {
      auto& [node, tried] = way.back();
      if (tried == 0 && !passed[at(node)]) {
        passed[at(node)] = true;
        for (const int host : hosts_at[at(node)]) {
          if (named[at(host)]) continue;
          named[at(host)] = true;
          order.push_back(host);
        }
      }
      while (tried < next[at(node)].size() && passed[at(next[at(node)][tried].second)]) ++tried;
      if (tried == next[at(node)].size())
        way.pop_back();
      else
        way.emplace_back(next[at(node)][tried++].second, 0);
    }
  };
  for (const topology::Attachment& one : cluster.attachments)
    if (one.attached() && !passed[at(one.leaf)]) walk(one.leaf);
  for (std::size_t host = 0; host < named.size(); ++host)
    if (!named[host]) order.push_back(static_cast<int>(host));
  return order;
}

}  // namespace sccl::portfolio
