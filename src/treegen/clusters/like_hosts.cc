#include "treegen/clusters/like_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "topology/presets.h"

namespace sccl::treegen {
namespace {

using topology::Cluster;
using topology::Node;
using topology::Topology;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Numbers for the nodes of a host: its devices and switches in the order of its kind, then switches on its ways to the
// network. The number `devices` is left for what is outside.
std::map<Node, Node> numbers(const Cluster& cluster, int host) {
  const int devices = static_cast<int>(cluster.hosts[at(host)].size());
  std::map<Node, Node> number;
  const auto add = [&](Node node) {
    const auto next = static_cast<Node>(number.size());
    number.try_emplace(node, next < devices ? next : next + 1);
  };
  for (const Node node : cluster.nodes[at(host)]) add(node);
  for (const Rank rank : cluster.hosts[at(host)]) {
    const topology::Attachment& way = cluster.attachments[at(rank)];
    for (const auto& [from, to] : way.up) {
      if (from != way.leaf) add(from);
      if (to != way.leaf) add(to);
    }
  }
  return number;
}

// A link at a host. `beyond`: the node at its other end where this is none of the host's nodes, else -1.
using Line = std::tuple<Node, Node, int, double, double, Node>;
using Lines = std::vector<Line>;

// The lines of all hosts, each in the numbers of its host, ascending.
std::vector<Lines> lines_of(const Topology& topology, const std::vector<std::map<Node, Node>>& numbered, Node outside) {
  std::map<Node, int> host_of;
  for (std::size_t host = 0; host < numbered.size(); ++host)
    for (const auto& [node, number] : numbered[host]) host_of.try_emplace(node, static_cast<int>(host));
  std::vector<Lines> lines(numbered.size());
  for (const topology::Link& link : topology.links) {
    const auto from = host_of.find(link.src);
    const auto to = host_of.find(link.dst);
    if (from != host_of.end()) {
      const auto& number = numbered[at(from->second)];
      const auto inside = number.find(link.dst);
      const bool leaves = inside == number.end();
      lines[at(from->second)].emplace_back(number.at(link.src), leaves ? outside : inside->second, link.lanes,
                                           link.gbytes_per_s, link.alpha_us, leaves ? link.dst : -1);
    }
    if (to != host_of.end() && (from == host_of.end() || from->second != to->second))
      lines[at(to->second)].emplace_back(outside, numbered[at(to->second)].at(link.dst), link.lanes, link.gbytes_per_s,
                                         link.alpha_us, link.src);
  }
  for (Lines& one : lines) std::sort(one.begin(), one.end());
  return lines;
}

std::string difference(const Topology& topology, const Cluster& cluster, const std::vector<Lines>& lines) {
  std::map<Node, int> host_of_node;
  for (std::size_t host = 0; host < cluster.nodes.size(); ++host)
    for (const Node node : cluster.nodes[host]) host_of_node[node] = static_cast<int>(host);
  const auto host_of = [&](Node node) {
    const auto found = host_of_node.find(node);
    return found == host_of_node.end() ? -1 : found->second;
  };
  for (std::size_t host = 0; host < lines.size(); ++host) {
    if (cluster.kind_of[host] != cluster.kind_of[0] || cluster.hosts[host].size() != cluster.hosts[0].size())
      return fmt::format("host {} has other links than host 0", host);
    if (lines[host] != lines[0]) return fmt::format("host {} reaches the network in another way than host 0", host);
    for (const Rank rank : cluster.hosts[host]) {
      const topology::Attachment& way = cluster.attachments[at(rank)];
      const Rank first = cluster.hosts[0][at(cluster.local_of[at(rank)])];
      if (!way.attached() || way.leaf != cluster.attachments[at(first)].leaf)
        return fmt::format("rank {} hangs on another switch than rank {}, or on none", rank, first);
    }
  }
  for (const topology::SharedSet& set : topology.shared)
    for (const auto& [from, to] : set.links)
      if (host_of(from) < 0 || host_of(from) != host_of(to) || host_of(from) != host_of(set.links.front().first))
        return fmt::format("a shared set holds link {}->{}, which leaves a host", from, to);
  return "";
}

}  // namespace

std::optional<LikeHosts> like_hosts(const Topology& topology, std::string& why) {
  const Cluster cluster = topology::cluster_of(topology);
  const int hosts = static_cast<int>(cluster.hosts.size());
  if (hosts < 2) {
    why = "there is one host";
    return std::nullopt;
  }
  std::vector<std::map<Node, Node>> numbered;
  for (int host = 0; host < hosts; ++host) numbered.push_back(numbers(cluster, host));
  const int devices = static_cast<int>(cluster.hosts[0].size());
  const std::vector<Lines> lines = lines_of(topology, numbered, devices);
  why = difference(topology, cluster, lines);
  if (!why.empty()) return std::nullopt;
  LikeHosts result;
  result.ranks = cluster.hosts;
  result.one.name = "one host of " + topology.name;
  result.one.ranks = devices + 1;
  std::map<Node, Node> number = numbered[0];
  std::vector<std::pair<Node, Node>> switches;  // new number, old node
  for (const auto& [node, is] : number)
    if (is > devices) switches.emplace_back(is, node);
  std::sort(switches.begin(), switches.end());
  result.one.switches = static_cast<int>(switches.size());
  for (const auto& [is, node] : switches) result.one.switch_kinds.push_back(topology.switch_kind(node));
  for (const Line& line : lines.front())
    if (const Node beyond = std::get<5>(line); beyond >= 0) number[beyond] = devices;
  topology::copy_links(topology, number, result.one);
  std::erase_if(result.one.links, [](const topology::Link& link) { return link.src == link.dst; });
  return result;
}

}  // namespace sccl::treegen
