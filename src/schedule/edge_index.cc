#include "schedule/edge_index.h"

#include <algorithm>
#include <limits>

namespace sccl::schedule {

using topology::Edge;
using topology::Link;
namespace {

// Limit for each of several parallel links: more lanes are a mistake in the input, and sums must not overflow.
constexpr int kMostLanes = 1 << 29;

}  // namespace

EdgeIndex::EdgeIndex(const topology::Topology& topology) : first_(static_cast<std::size_t>(topology.nodes()) + 1, 0) {
  edges_.reserve(topology.links.size());
  for (const Link& link : topology.links)
    edges_.push_back({{link.src, link.dst}, link.lanes, link.gbytes_per_s, link.alpha_us, link.link_class});
  std::stable_sort(edges_.begin(), edges_.end(), [](const EdgeInfo& a, const EdgeInfo& b) { return a.ends < b.ends; });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < edges_.size(); ++i) {
    if (kept > 0 && edges_[kept - 1].ends == edges_[i].ends) {
      edges_[kept - 1].lanes = std::min(kMostLanes, edges_[kept - 1].lanes) + std::min(kMostLanes, edges_[i].lanes);
      edges_[kept - 1].gbytes_per_s += edges_[i].gbytes_per_s;
      edges_[kept - 1].alpha_us = std::min(edges_[kept - 1].alpha_us, edges_[i].alpha_us);
    } else {
      edges_[kept++] = edges_[i];
    }
  }
  edges_.resize(kept);
  for (const EdgeInfo& edge : edges_) ++first_[static_cast<std::size_t>(edge.ends.first) + 1];
  for (std::size_t node = 1; node < first_.size(); ++node) first_[node] += first_[node - 1];

  if (topology.shared.empty()) return;
  std::vector<std::vector<int>> sets(edges_.size());
  set_rates_.assign(topology.shared.size(), std::numeric_limits<double>::infinity());
  for (std::size_t set = 0; set < topology.shared.size(); ++set)
    for (const Edge& ends : topology.shared[set].links) {
      const EdgeId edge = find(ends);
      auto& of_edge = sets[static_cast<std::size_t>(edge)];
      if (!of_edge.empty() && of_edge.back() == static_cast<int>(set)) continue;
      of_edge.push_back(static_cast<int>(set));
      set_rates_[set] = std::min(set_rates_[set], (*this)[edge].lane_gbytes_per_s());
    }
  first_set_.push_back(0);
  for (const std::vector<int>& of_edge : sets) {
    sets_.insert(sets_.end(), of_edge.begin(), of_edge.end());
    first_set_.push_back(static_cast<int>(sets_.size()));
  }
}

EdgeId EdgeIndex::find(const Edge& ends) const {
  const auto node = static_cast<std::size_t>(ends.first);
  const auto begin = edges_.begin() + first_[node];
  const auto end = edges_.begin() + first_[node + 1];
  const auto found = std::lower_bound(begin, end, ends, [](const EdgeInfo& a, const Edge& b) { return a.ends < b; });
  return found != end && found->ends == ends ? static_cast<EdgeId>(found - edges_.begin()) : -1;
}

std::span<const int> EdgeIndex::sets_of(EdgeId edge) const {
  if (first_set_.empty()) return {};
  const auto at = static_cast<std::size_t>(edge);
  return std::span(sets_).subspan(static_cast<std::size_t>(first_set_[at]),
                                  static_cast<std::size_t>(first_set_[at + 1] - first_set_[at]));
}

EdgePaths::EdgePaths(const topology::Topology& topology, const EdgeIndex& edges, std::size_t queries)
    : edges_(edges), routes_(topology), ranks_(static_cast<std::size_t>(topology.ranks)) {
  constexpr std::size_t kMostKnown = 8192;
  known_.resize(std::clamp<std::size_t>(std::min(queries, ranks_ * ranks_), 1, kMostKnown));
}

std::span<const EdgeId> EdgePaths::of(Rank src, Rank dst) {
  const std::size_t pair = static_cast<std::size_t>(src) * ranks_ + static_cast<std::size_t>(dst);
  Known& known = known_[pair % known_.size()];
  if (known.src != src || known.dst != dst) {
    known.src = src;
    known.dst = dst;
    known.way.clear();
    for (const Edge& ends : routes_.path(src, dst)) known.way.push_back(edges_.find(ends));
  }
  return known.way;
}

}  // namespace sccl::schedule
