#include "topology/twin_switches.h"

#include <algorithm>
#include <compare>
#include <map>
#include <utility>
#include <vector>

namespace sccl::topology {
namespace {

// Classes are told apart by their distance from what has no twins. That is short: networks have few floors.
constexpr int kMostRounds = 32;

std::size_t at(Node node) { return static_cast<std::size_t>(node); }

std::vector<bool> may_have_twins(const Topology& topology) {
  std::vector<bool> may(at(topology.nodes()), false);
  for (const Link& link : topology.links)
    if (link.link_class == LinkClass::net) may[at(link.src)] = may[at(link.dst)] = true;
  std::fill_n(may.begin(), topology.ranks, false);
  for (const SharedSet& set : topology.shared)
    for (const auto& [src, dst] : set.links) may[at(src)] = may[at(dst)] = false;
  return may;
}

// A link as the switch at one end sees it.
struct Joint {
  int other = 0;  // class
  bool leaves = false;
  LinkClass link_class = LinkClass::net;
  Source source = Source::assumed;
  int lanes = 1;
  double gbytes_per_s = 0;
  double alpha_us = 0;
  auto operator<=>(const Joint&) const = default;
};

// By node; empty if no two switches are alike, or the partition does not become stable. Classes are numbered in no
// particular order.
std::vector<int> classes_of(const Topology& topology) {
  const std::vector<bool> may = may_have_twins(topology);
  std::vector<Node> candidates;
  std::vector<int> classes(at(topology.nodes()));
  for (Node node = 0; node < topology.nodes(); ++node) {
    classes[at(node)] = may[at(node)] ? topology.nodes() : node;
    if (may[at(node)]) candidates.push_back(node);
  }
  std::size_t count = candidates.empty() ? 0 : 1;
  for (int round = 0; round < kMostRounds && count < candidates.size(); ++round) {
    std::map<Node, std::vector<Joint>> joints;
    const auto add = [&](const Link& link, Node node, Node other, bool leaves) {
      if (may[at(node)])
        joints[node].push_back(
            {classes[at(other)], leaves, link.link_class, link.source, link.lanes, link.gbytes_per_s, link.alpha_us});
    };
    for (const Link& link : topology.links) {
      add(link, link.src, link.dst, true);
      add(link, link.dst, link.src, false);
    }
    std::map<std::pair<int, std::vector<Joint>>, int> found;
    std::vector<int> finer = classes;
    for (auto& [node, of_node] : joints) {
      std::ranges::sort(of_node);
      const auto number = topology.nodes() + static_cast<int>(found.size());
      finer[at(node)] = found.try_emplace({classes[at(node)], std::move(of_node)}, number).first->second;
    }
    if (found.size() == count) return classes;
    count = found.size();
    classes = std::move(finer);
  }
  return {};
}

// Whether some were joined.
bool join_once(Topology& topology) {
  const std::vector<int> classes = classes_of(topology);
  if (classes.empty()) return false;
  std::map<int, Node> first;  // by class
  for (Node node = 0; node < topology.nodes(); ++node) first.try_emplace(classes[at(node)], node);
  for (Link& link : topology.links) {
    link.src = first.at(classes[at(link.src)]);
    link.dst = first.at(classes[at(link.dst)]);
  }
  std::erase_if(topology.links, [](const Link& link) { return link.src == link.dst; });
  return true;
}

}  // namespace

// A switch that has taken the links of others may be like one that had as many.
void join_twin_switches(Topology& topology) {
  while (join_once(topology)) continue;
}

}  // namespace sccl::topology
