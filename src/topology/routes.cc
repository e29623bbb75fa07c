#include "topology/routes.h"

#include <algorithm>
#include <deque>

namespace sccl::topology {

Routes::Routes(const Topology& topology)
    : ranks_(topology.ranks),
      next_(static_cast<std::size_t>(topology.nodes())),
      next_on_host_(next_.size()),
      switched_(static_cast<std::size_t>(topology.ranks)),
      filled_(static_cast<std::size_t>(topology.ranks), false) {
  for (const Link& link : topology.links) {
    next_[static_cast<std::size_t>(link.src)].push_back(link.dst);
    if (link.link_class != LinkClass::net) next_on_host_[static_cast<std::size_t>(link.src)].push_back(link.dst);
  }
  for (Neighbours* neighbours : {&next_, &next_on_host_})
    for (std::vector<Node>& nodes : *neighbours) {
      std::sort(nodes.begin(), nodes.end());
      nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    }
}

std::span<const Edge> Routes::path(Rank src, Rank dst) {
  const auto from = static_cast<std::size_t>(src);
  if (src == dst) return {};
  if (std::binary_search(next_[from].begin(), next_[from].end(), dst)) {
    direct_ = {src, dst};
    return {&direct_, 1};
  }
  if (!filled_[from]) {
    through_switches(src, next_on_host_, switched_[from]);
    through_switches(src, next_, switched_[from]);
    filled_[from] = true;
  }
  const auto found = switched_[from].find(dst);
  if (found == switched_[from].end()) return {};
  return found->second;
}

void Routes::through_switches(Rank src, const Neighbours& next, std::map<Rank, std::vector<Edge>>& paths) const {
  std::vector<Node> before(next.size(), -1);
  std::deque<Node> waiting{src};
  while (!waiting.empty()) {
    const Node at = waiting.front();
    waiting.pop_front();
    for (const Node node : next[static_cast<std::size_t>(at)]) {
      if (node == src || before[static_cast<std::size_t>(node)] >= 0) continue;
      before[static_cast<std::size_t>(node)] = at;
      if (node >= ranks_) {
        waiting.push_back(node);
        continue;
      }
      std::vector<Edge>& path = paths[node];
      if (!path.empty()) continue;
      for (Node to = node; to != src; to = before[static_cast<std::size_t>(to)])
        path.emplace_back(before[static_cast<std::size_t>(to)], to);
      std::reverse(path.begin(), path.end());
    }
  }
}

std::map<Edge, int> edge_lanes(const Topology& topology) {
  std::map<Edge, int> lanes;
  for (const Link& link : topology.links) lanes[{link.src, link.dst}] += link.lanes;
  return lanes;
}

}  // namespace sccl::topology
