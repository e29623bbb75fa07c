#include "topology/dead_links.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace sccl::topology {
namespace {

using Edge = std::pair<Node, Node>;

std::size_t at(Node node) { return static_cast<std::size_t>(node); }

// Switches that lost links and have one neighbour left, then those behind them.
void leave_out_dead_ends(Topology& topology, const std::set<Node>& first) {
  std::vector<std::set<Node>> neighbours(at(topology.nodes()));
  for (const Link& link : topology.links) {
    neighbours[at(link.src)].insert(link.dst);
    neighbours[at(link.dst)].insert(link.src);
  }
  std::set<Node> dead;
  std::vector<Node> waiting(first.begin(), first.end());
  while (!waiting.empty()) {
    const Node node = waiting.back();
    waiting.pop_back();
    if (node < topology.ranks || neighbours[at(node)].size() > 1 || !dead.insert(node).second) continue;
    for (const Node other : neighbours[at(node)]) {
      neighbours[at(other)].erase(node);
      waiting.push_back(other);
    }
  }
  std::erase_if(topology.links, [&](const Link& link) { return dead.contains(link.src) || dead.contains(link.dst); });
}

}  // namespace

void leave_out(Topology& topology, const std::set<Edge>& edges) {
  std::set<Node> ends;
  for (const auto& [src, dst] : edges) ends.insert({src, dst});
  std::erase_if(topology.links, [&](const Link& link) { return edges.contains({link.src, link.dst}); });
  leave_out_dead_ends(topology, ends);
  std::set<Edge> kept;
  for (const Link& link : topology.links) kept.emplace(link.src, link.dst);
  for (SharedSet& set : topology.shared)
    std::erase_if(set.links, [&](const Edge& edge) { return !kept.contains(edge); });
  std::erase_if(topology.shared, [](const SharedSet& set) { return set.links.empty(); });
}

int leave_out_dead_links(Topology& topology) {
  const auto is_dead = [](const Link& link) { return !(link.gbytes_per_s > 0); };
  const auto count = static_cast<int>(std::ranges::count_if(topology.links, is_dead));
  if (count == 0 || count == static_cast<int>(topology.links.size())) return 0;
  std::map<Edge, double> rates;
  for (const Link& link : topology.links) rates[{link.src, link.dst}] += link.gbytes_per_s;
  std::set<Edge> dead;
  for (const Link& link : topology.links) {
    const Edge edge(link.src, link.dst);
    const auto back = rates.find({link.dst, link.src});
    const bool one_way = link.link_class == LinkClass::net && back != rates.end() && !(back->second > 0);
    if (!(rates.at(edge) > 0) || one_way) dead.insert(edge);
  }
  std::erase_if(topology.links, is_dead);  // also beside links of a rate
  leave_out(topology, dead);
  return count;
}

void leave_out_lone_switches(Topology& topology) {
  std::vector<bool> linked(at(topology.nodes()), false);
  for (const Link& link : topology.links) linked[at(link.src)] = linked[at(link.dst)] = true;
  std::vector<Node> number(linked.size());
  std::vector<SwitchKind> kinds;
  Node next = 0;
  for (Node node = 0; node < topology.nodes(); ++node) {
    number[at(node)] = next;
    if (node >= topology.ranks && !linked[at(node)]) continue;
    ++next;
    if (node >= topology.ranks && !topology.switch_kinds.empty())
      kinds.push_back(topology.switch_kinds[at(node - topology.ranks)]);
  }
  topology.switches = next - topology.ranks;
  topology.switch_kinds = std::move(kinds);
  for (Link& link : topology.links) {
    link.src = number[at(link.src)];
    link.dst = number[at(link.dst)];
  }
  for (SharedSet& set : topology.shared)
    for (auto& [src, dst] : set.links) {
      src = number[at(src)];
      dst = number[at(dst)];
    }
}

}  // namespace sccl::topology
