#include "topology/graph/like_ranks.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

#include "topology/groups.h"

namespace sccl::topology {
namespace {

constexpr int kNone = -1;
constexpr int kSeveral = -2;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// By node: the first node of its host, which links of other classes than net join. A switch that has only links of that
// class belongs to the host of all its neighbours that are on hosts, as a NIC does, else to none.
std::vector<Node> hosts_of(const Topology& topology) {
  Groups groups(topology.nodes());
  std::vector<Node> host(at(topology.nodes()));
  std::vector<bool> of_network(host.size(), true);
  std::fill_n(of_network.begin(), topology.ranks, false);
  for (const Link& link : topology.links) {
    if (link.link_class == LinkClass::net) continue;
    groups.join(link.src, link.dst);
    of_network[at(link.src)] = of_network[at(link.dst)] = false;
  }
  for (Node node = 0; node < topology.nodes(); ++node) host[at(node)] = of_network[at(node)] ? kNone : groups.of(node);
  std::vector<Node> result = host;
  for (const Link& link : topology.links)
    for (const auto& [node, other] : {std::pair(link.src, link.dst), {link.dst, link.src}})
      if (of_network[at(node)] && host[at(other)] >= 0 && result[at(node)] != host[at(other)])
        result[at(node)] = result[at(node)] == kNone ? host[at(other)] : kSeveral;
  return result;
}

// A link of a host: its ends, the host's nodes by position and others by number, and its lanes.
using LinkOfHost = std::array<int, 3>;

}  // namespace

// Two hosts may be swapped if their lists of links are equal: then neither is joined to the other one directly.
std::vector<Rank> first_alike(const Topology& topology) {
  const std::vector<Node> hosts = hosts_of(topology);
  std::map<Node, std::vector<Node>> nodes;  // by host, in the order of their numbers
  std::vector<int> position(hosts.size(), 0);
  for (Node node = 0; node < topology.nodes(); ++node)
    if (hosts[at(node)] >= 0) {
      std::vector<Node>& of_host = nodes[hosts[at(node)]];
      position[at(node)] = static_cast<int>(of_host.size());
      of_host.push_back(node);
    }
  std::map<Node, std::vector<LinkOfHost>> links;  // by host
  for (const Link& link : topology.links) {
    const Node from = hosts[at(link.src)];
    const Node to = hosts[at(link.dst)];
    const auto add = [&](Node host) {
      const auto label = [&](Node node) {
        return hosts[at(node)] == host ? position[at(node)] : topology.nodes() + node;
      };
      links[host].push_back({label(link.src), label(link.dst), link.lanes});
    };
    if (from >= 0) add(from);
    if (to >= 0 && to != from) add(to);
  }
  std::vector<Rank> result(at(topology.ranks));
  std::iota(result.begin(), result.end(), 0);
  std::map<std::vector<LinkOfHost>, Node> known;
  for (auto& [host, of_host] : links) {
    std::ranges::sort(of_host);
    const std::vector<Node>& like = nodes[known.emplace(std::move(of_host), host).first->second];
    const std::vector<Node>& here = nodes[host];
    // Ranks must be ranks there, too: no link tells how many nodes of a host are switches.
    const auto ranks = [&](const std::vector<Node>& some) {
      return std::ranges::count_if(some, [&](Node node) { return node < topology.ranks; });
    };
    if (here.size() != like.size() || ranks(here) != ranks(like)) continue;
    for (std::size_t i = 0; i < here.size() && here[i] < topology.ranks; ++i) result[at(here[i])] = like[i];
  }
  return result;
}

}  // namespace sccl::topology
