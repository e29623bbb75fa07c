#include "topology/graph/routes.h"

#include <algorithm>

namespace sccl::topology {
namespace {

void sort_each_once(std::vector<std::vector<Node>>& lists) {
  for (std::vector<Node>& nodes : lists) {
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  }
}

}  // namespace

Routes::Routes(const Topology& topology)
    : ranks_(topology.ranks),
      next_ranks_(static_cast<std::size_t>(topology.ranks)),
      reach_on_host_(static_cast<std::size_t>(topology.ranks)),
      reach_everywhere_(static_cast<std::size_t>(topology.ranks)) {
  const auto nodes = static_cast<std::size_t>(topology.nodes());
  for (Web* web : {&on_host_, &everywhere_}) {
    web->next_switches.resize(nodes);
    web->previous_switches.resize(nodes);
  }
  for (const Link& link : topology.links) {
    if (link.src < ranks_ && link.dst < ranks_) next_ranks_[static_cast<std::size_t>(link.src)].push_back(link.dst);
    for (Web* web : {&on_host_, &everywhere_}) {
      if (web == &on_host_ && link.link_class == LinkClass::net) continue;
      if (link.dst >= ranks_) web->next_switches[static_cast<std::size_t>(link.src)].push_back(link.dst);
      if (link.src >= ranks_) web->previous_switches[static_cast<std::size_t>(link.dst)].push_back(link.src);
    }
  }
  sort_each_once(next_ranks_);
  for (Web* web : {&on_host_, &everywhere_}) {
    sort_each_once(web->next_switches);
    sort_each_once(web->previous_switches);
  }
}

std::span<const Edge> Routes::path(Rank src, Rank dst) {
  path_.clear();
  if (src == dst) return {};
  const auto from = static_cast<std::size_t>(src);
  if (std::binary_search(next_ranks_[from].begin(), next_ranks_[from].end(), dst)) {
    path_.emplace_back(src, dst);
    return path_;
  }
  if (!reach_on_host_[from].searched) {
    search(on_host_, src, reach_on_host_[from]);
    search(everywhere_, src, reach_everywhere_[from]);
  }
  if (!walk_back(on_host_, reach_on_host_[from], src, dst)) walk_back(everywhere_, reach_everywhere_[from], src, dst);
  return path_;
}

void Routes::search(const Web& web, Rank src, Reach& reach) const {
  const std::size_t switches = web.next_switches.size() - static_cast<std::size_t>(ranks_);
  reach.searched = true;
  reach.before.assign(switches, -1);
  reach.order.assign(switches, -1);
  std::vector<Node> reached{src};
  for (std::size_t at = 0; at < reached.size(); ++at)
    for (const Node node : web.next_switches[static_cast<std::size_t>(reached[at])]) {
      const auto index = static_cast<std::size_t>(switch_index(node));
      if (reach.order[index] >= 0) continue;
      reach.before[index] = reached[at];
      reach.order[index] = static_cast<int>(reached.size());
      reached.push_back(node);
    }
}

bool Routes::walk_back(const Web& web, const Reach& reach, Rank src, Rank dst) {
  Node last = -1;
  int first_reached = 0;
  for (const Node node : web.previous_switches[static_cast<std::size_t>(dst)]) {
    const int order = reach.order[static_cast<std::size_t>(switch_index(node))];
    if (order < 0 || (last >= 0 && order >= first_reached)) continue;
    last = node;
    first_reached = order;
  }
  if (last < 0) return false;
  path_.emplace_back(last, dst);
  for (Node to = last; to != src; to = reach.before[static_cast<std::size_t>(switch_index(to))])
    path_.emplace_back(reach.before[static_cast<std::size_t>(switch_index(to))], to);
  std::reverse(path_.begin(), path_.end());
  return true;
}

std::map<Edge, int> edge_lanes(const Topology& topology) {
  std::map<Edge, int> lanes;
  for (const Link& link : topology.links) lanes[{link.src, link.dst}] += link.lanes;
  return lanes;
}

}  // namespace sccl::topology
