#include "topology/graph/routes.h"

#include <algorithm>

namespace sccl::topology {
namespace {

template <typename Next>
void sort_each_once(std::vector<std::vector<Next>>& lists) {
  for (std::vector<Next>& list : lists) {
    std::ranges::stable_sort(list, {}, &Next::node);
    std::size_t kept = 0;
    for (const Next& one : list) {
      if (kept > 0 && list[kept - 1].node == one.node)
        list[kept - 1].gbytes_per_s += one.gbytes_per_s;
      else
        list[kept++] = one;
    }
    list.resize(kept);
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
      if (link.dst >= ranks_)
        web->next_switches[static_cast<std::size_t>(link.src)].push_back({link.dst, link.gbytes_per_s});
      if (link.src >= ranks_)
        web->previous_switches[static_cast<std::size_t>(link.dst)].push_back({link.src, link.gbytes_per_s});
    }
  }
  for (std::vector<Node>& nodes : next_ranks_) std::ranges::sort(nodes);
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

// Switches are reached in the order of their distance: what leads to a switch is final before it is passed.
void Routes::search(const Web& web, Rank src, Reach& reach) const {
  const std::size_t switches = web.next_switches.size() - static_cast<std::size_t>(ranks_);
  reach.searched = true;
  reach.before.assign(switches, -1);
  reach.order.assign(switches, -1);
  reach.depth.assign(switches, 0);
  reach.slowest_gbytes_per_s.assign(switches, 0);
  std::vector<Node> reached{src};
  for (std::size_t at = 0; at < reached.size(); ++at) {
    const Node here = reached[at];
    const bool first = here == src;
    const auto from = static_cast<std::size_t>(first ? 0 : switch_index(here));
    const int depth = first ? 1 : reach.depth[from] + 1;
    for (const Next& next : web.next_switches[static_cast<std::size_t>(here)]) {
      const auto index = static_cast<std::size_t>(switch_index(next.node));
      const auto rate = static_cast<float>(next.gbytes_per_s);
      const float slowest = first ? rate : std::min(reach.slowest_gbytes_per_s[from], rate);
      const bool known = reach.order[index] >= 0;
      if (known && (reach.depth[index] < depth || slowest <= kClearlyFaster * reach.slowest_gbytes_per_s[index]))
        continue;
      reach.before[index] = here;
      reach.slowest_gbytes_per_s[index] = slowest;
      if (known) continue;
      reach.depth[index] = depth;
      reach.order[index] = static_cast<int>(reached.size());
      reached.push_back(next.node);
    }
  }
}

bool Routes::walk_back(const Web& web, const Reach& reach, Rank src, Rank dst) {
  Node last = -1;
  int best = 0;  // index of `last`
  float best_slowest = 0;
  for (const Next& previous : web.previous_switches[static_cast<std::size_t>(dst)]) {
    const auto index = static_cast<std::size_t>(switch_index(previous.node));
    if (reach.order[index] < 0) continue;
    const float slowest = std::min(reach.slowest_gbytes_per_s[index], static_cast<float>(previous.gbytes_per_s));
    const auto known = static_cast<std::size_t>(best);
    const bool shorter = last < 0 || reach.depth[index] < reach.depth[known];
    const bool faster = slowest > kClearlyFaster * best_slowest;
    const bool earlier = reach.order[index] < reach.order[known] && best_slowest <= kClearlyFaster * slowest;
    if (!shorter && (reach.depth[index] > reach.depth[known] || !(faster || earlier))) continue;
    last = previous.node;
    best = switch_index(previous.node);
    best_slowest = slowest;
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
