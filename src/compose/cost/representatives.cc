#include "compose/cost/representatives.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace sccl::compose {
namespace {

constexpr int kMostRoots = 256;

// How many of one rank's chunks must be examined to see each of its host's trees as often as its data take it.
int trees_of_roots(const Composite& composite, const Routes& routes) {
  const bool some = std::ranges::any_of(composite.tiers, [](const Tier& tier) { return !tier.of_roots.empty(); });
  return some ? routes.chunks() / composite.ranks() : 1;
}

std::vector<std::pair<ChunkId, double>> of_blocks(const Composite& composite, const Routes& routes) {
  std::vector<std::pair<ChunkId, double>> result;
  const auto hosts = composite.hosts.size();
  const double ranks = composite.ranks();
  const bool sums = composite.collective == Collective::reducescatter;
  const int trees = trees_of_roots(composite, routes);
  double all = 0;
  for (std::size_t host = 0; host < hosts; host += std::max<std::size_t>(1, hosts / kMostRoots)) {
    const double bytes = static_cast<double>(composite.hosts[host].ranks.size()) / (sums ? ranks : 1.0);
    all += bytes;
    const ChunkId first = composite.hosts[host].ranks.front();
    for (int tree = 0; tree < trees; ++tree) result.emplace_back(first + tree * composite.ranks(), bytes / trees);
  }
  const double wanted = sums ? 1 : ranks;
  for (auto& [chunk, bytes] : result) bytes *= wanted / all;
  return result;
}

// After so many chunks the root hosts and trees of an AllReduce are the same again.
int turn_of_trees(const Composite& composite) {
  std::size_t turn = std::max<std::size_t>(1, composite.root_hosts.size());
  for (const Tier& tier : composite.tiers)
    for (const auto& [members, trees] : tier.shapes) turn = std::lcm(turn, trees.size());
  return static_cast<int>(turn);
}

// Whether each of these hosts is as often the root of an AllReduce as the others.
bool equally_often_roots(const Composite& composite, const std::vector<int>& hosts) {
  std::vector<int> roots(composite.hosts.size(), 0);
  for (const int host : composite.root_hosts) ++roots[static_cast<std::size_t>(host)];
  const auto of = [&](int host) { return roots[static_cast<std::size_t>(host)]; };
  return of(hosts.front()) > 0 && std::ranges::all_of(hosts, [&](int host) { return of(host) == of(hosts.front()); });
}

// Members that turn are roots in turn. Of the others those are alike that turn with as many trees.
std::vector<std::vector<int>> classes_by_leaves(const Tier& tier) {
  const std::vector<int>& members = tier.groups.front();
  std::vector<int> leaves = tier.leaves;
  leaves.push_back(0);
  std::ranges::sort(leaves, std::greater<>());
  const auto repeated = std::ranges::unique(leaves);
  leaves.erase(repeated.begin(), repeated.end());
  std::vector<std::vector<int>> classes;
  auto first = members.begin();
  for (const int count : leaves) {
    if (members.end() - count != first) classes.emplace_back(first, members.end() - count);
    first = members.end() - count;
  }
  return classes;
}

}  // namespace

std::vector<std::vector<int>> equally_busy(const Composite& composite, int examined) {
  const Tier& tier = composite.tiers.front();
  const bool both_ways = composite.collective == Collective::allreduce;
  if (info(composite.collective).rooted) return {};
  if (!tier.leaves.empty()) {
    const bool entries = std::ranges::any_of(composite.kinds, [](const auto& kind) { return kind->has_entries(); });
    auto classes = classes_by_leaves(tier);
    if (entries || !equally_often_roots(composite, classes.front())) return {};
    return classes;
  }
  const auto hosts = static_cast<int>(composite.hosts.size());
  if (examined >= hosts || by_several_trees(composite) || composite.kinds.size() > 1) return {};
  std::vector<int> all(composite.hosts.size());
  std::iota(all.begin(), all.end(), 0);
  // Of an AllReduce roots may pass more than the others.
  if (both_ways && !equally_often_roots(composite, all)) return {};
  return {std::move(all)};
}

bool by_several_trees(const Composite& composite) {
  if (composite.collective != Collective::allreduce || composite.meeting != Meeting::trees) return false;
  return std::ranges::any_of(composite.tiers, [](const Tier& tier) {
    const auto several = [](const auto& shape) { return shape.second.size() > 1; };
    return tier.of_roots.empty() && std::ranges::any_of(tier.shapes, several);
  });
}

std::vector<std::pair<ChunkId, double>> representatives(const Composite& composite, const Routes& routes) {
  const bool blocks =
      composite.collective == Collective::allgather || composite.collective == Collective::reducescatter;
  if (blocks) return of_blocks(composite, routes);
  std::vector<std::pair<ChunkId, double>> result;
  const int of_strand = routes.most_ports() * composite.frames;
  const int strands = std::max(1, routes.chunks() / of_strand);
  const int frames = by_several_trees(composite) ? std::min(routes.frames_in_turn(), turn_of_trees(composite)) : 1;
  for (int strand = 0; strand < strands; strand += std::max(1, strands / kMostRoots))
    for (int frame = 0; frame < frames; ++frame) result.emplace_back(strand * of_strand + frame, 0);
  for (auto& [chunk, bytes] : result) bytes = 1.0 / static_cast<double>(result.size());
  return result;
}

}  // namespace sccl::compose
