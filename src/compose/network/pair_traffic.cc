#include "compose/network/pair_traffic.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "compose/form/rails_of_pairs.h"

namespace sccl::compose {
namespace {

constexpr std::size_t kMostSingleHosts = 64;
constexpr int kMostCountedBlocks = 64 * 64;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

void to_parts(std::vector<double>& bytes) {
  const double all = std::accumulate(bytes.begin(), bytes.end(), 0.0);
  for (double& one : bytes) one /= all > 0 ? all : 1;
}

// Of a block, per byte of L.
double block_bytes(const Composite& composite) {
  return composite.collective == Collective::gather ? 1 : 1.0 / composite.ranks();
}

}  // namespace

PairTraffic::PairTraffic(const Composite& composite, const topology::Cluster& cluster, const Routes& routes) {
  const bool each = routes.chunks() <= kMostCountedBlocks && composite.hosts.size() <= kMostSingleHosts;
  group(composite, each);
  for (Kind& kind : kinds_)
    for (const Rank rank : composite.hosts[at(kind.host)].ranks)
      kind.leaf.push_back(cluster.attachments[at(rank)].leaf);
  stay(composite);
  each ? pass_each(composite, routes) : pass(composite);
  for (Kind& kind : kinds_) {
    to_parts(kind.passed.leaves);
    to_parts(kind.passed.enters);
  }
}

void PairTraffic::group(const Composite& composite, bool each_host) {
  using Key = std::tuple<int, std::size_t, std::vector<int>, std::vector<std::vector<int>>, std::vector<int>, int, int>;
  std::map<Key, int> known;
  for (const Host& host : composite.hosts) {
    const auto number = static_cast<int>(kind_of_.size());
    const auto found = std::ranges::find(host.ranks, composite.root);
    const bool rooted = info(composite.collective).rooted && found != host.ranks.end();
    const int root = rooted ? static_cast<int>(found - host.ranks.begin()) : -1;
    const std::size_t devices = host.ranks.size();
    const auto [place, added] =
        known.try_emplace({each_host ? number : 0, devices, host.ports, host.near, host.rails, host.pace, root},
                          static_cast<int>(kinds_.size()));
    if (added) {
      const std::vector<double> nothing(devices, 0);
      kinds_.push_back({number, 0, root, {}, {std::vector(devices, nothing), nothing, nothing}});
    }
    ++kinds_[at(place->second)].count;
    kind_of_.push_back(place->second);
  }
}

// Blocks between devices of one host.
void PairTraffic::stay(const Composite& composite) {
  const bool gathers = composite.collective == Collective::gather;
  const bool scatters = composite.collective == Collective::scatter;
  for (Kind& kind : kinds_)
    for (std::size_t a = 0; a < kind.passed.leaves.size(); ++a)
      for (std::size_t b = 0; b < kind.passed.leaves.size(); ++b) {
        const bool passes =
            a != b && (!gathers || static_cast<int>(b) == kind.root) && (!scatters || static_cast<int>(a) == kind.root);
        if (passes) kind.passed.on_host[a][b] += block_bytes(composite);
      }
}

void PairTraffic::add(const Pairs& pairs, int source, int sink, int leaves, int enters, double bytes) {
  PassedByHost& a = pairs.from->passed;
  PassedByHost& b = pairs.to->passed;
  a.leaves[at(leaves)] += bytes * pairs.receivers;
  b.enters[at(enters)] += bytes * pairs.senders;
  if (leaves != source) a.on_host[at(source)][at(leaves)] += bytes * pairs.receivers;
  if (enters != sink) b.on_host[at(enters)][at(sink)] += bytes * pairs.senders;
  by_leaves_[{pairs.from->leaf[at(leaves)], pairs.to->leaf[at(enters)]}].bytes +=
      bytes * pairs.from->count * pairs.receivers;
}

void PairTraffic::pass(const Composite& composite) {
  const RailsOfPairs rails(composite.hosts, composite.pace_across);
  const bool gathers = composite.collective == Collective::gather;
  const bool scatters = composite.collective == Collective::scatter;
  std::vector<Crossing> ways;
  for (Kind& a : kinds_)
    for (Kind& b : kinds_) {
      const int same = &a == &b ? 1 : 0;
      const Pairs pairs{&a, &b, a.count - same, b.count - same};
      if (pairs.senders == 0 || (gathers && b.root < 0) || (scatters && a.root < 0)) continue;
      std::set<std::pair<int, int>> used;
      for (int source = 0; source < static_cast<int>(a.leaf.size()); ++source)
        for (int sink = 0; sink < static_cast<int>(b.leaf.size()); ++sink) {
          if ((gathers && sink != b.root) || (scatters && source != a.root)) continue;
          rails.find(a.host, source, b.host, sink, ways);
          double all = 0;
          for (const Crossing& one : ways) all += one.weight;
          for (const Crossing& one : ways) {
            add(pairs, source, sink, one.leaves, one.enters, block_bytes(composite) * one.weight / all);
            if (used.emplace(one.leaves, one.enters).second)
              by_leaves_[{a.leaf[at(one.leaves)], b.leaf[at(one.enters)]}].connections +=
                  a.count * std::int64_t{pairs.receivers};
          }
        }
    }
}

void PairTraffic::pass_each(const Composite& composite, const Routes& routes) {
  const auto local = [&](Rank rank) {
    const std::vector<Rank>& ranks = composite.hosts[at(routes.host_of(rank))].ranks;
    return static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin());
  };
  std::set<std::pair<Rank, Rank>> used;
  const bool all_pairs = composite.collective == Collective::alltoall;
  const double blocks = composite.ranks() * (all_pairs ? composite.ranks() : 1.0);
  const double bytes = block_bytes(composite) * blocks / routes.chunks();
  for (ChunkId chunk = 0; chunk < routes.chunks(); ++chunk) {
    const Rank first = chunk % composite.ranks();
    const bool scatters = composite.collective == Collective::scatter;
    const Rank source = scatters ? composite.root : first;
    const Rank sink = all_pairs ? chunk / composite.ranks() % composite.ranks() : scatters ? first : composite.root;
    const int from = routes.host_of(source);
    const int to = routes.host_of(sink);
    if (from == to) continue;
    const Rank leaves = routes.port(chunk, from);
    const Rank enters = routes.port(chunk, to);
    const Pairs pairs{&kinds_[at(kind(from))], &kinds_[at(kind(to))], 1, 1};
    add(pairs, local(source), local(sink), local(leaves), local(enters), bytes);
    if (used.emplace(leaves, enters).second)
      ++by_leaves_[{pairs.from->leaf[at(local(leaves))], pairs.to->leaf[at(local(enters))]}].connections;
  }
}

void PairTraffic::lay(Paths paths, LeafTraffic& traffic) const {
  for (auto one = by_leaves_.begin(); one != by_leaves_.end();) {
    const topology::Node from = one->first.first;
    for (; one != by_leaves_.end() && one->first.first == from; ++one)
      traffic.add(one->first.second, one->second.bytes, one->second.connections);
    traffic.lay(from, paths);
  }
}

}  // namespace sccl::compose
