#include "compose/network/leaf_traffic.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "compose/network/handed_over.h"

namespace sccl::compose {

using topology::Node;
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

Node leaf_of(const topology::Cluster& cluster, const Host& host, std::size_t local) {
  return cluster.attachments[at(host.ranks[local])].leaf;
}

// Whether the leaf switch by which a unicast chunk leaves the host tells that by which it enters another such host.
bool by_turns(const Composite& composite, const topology::Cluster& cluster, int host) {
  const Host& one = composite.hosts[at(host)];
  // What all blocks have in common is the root, whose port does not take turns.
  if (composite.collective == Collective::gather && composite.sink_is_near) return false;
  if (composite.collective == Collective::scatter && composite.source_is_near) return false;
  const bool all_pairs = composite.source_is_near && composite.sink_is_near;
  if (!all_pairs && composite.turns_are_rails) return true;
  if (!one.all_own()) return false;
  const auto elsewhere = [&](int port) { return leaf_of(cluster, one, at(port)) != leaf_of(cluster, one, 0); };
  return !all_pairs || std::ranges::none_of(one.ports, elsewhere);
}

// How a host's devices are joined to leaf switches.
struct Joined {
  bool by_turns = false;
  std::vector<Node> turns;  // leaf switches of its ports; one for all of them if it is the same
  std::size_t ports = 0;
  std::map<Node, std::pair<double, int>> leaves, enters;  // by leaf switch: part of the data, and devices
  auto operator<=>(const Joined&) const = default;
};

// Hosts that are joined alike.
struct Hosts {
  double devices = 0;
  double squares = 0;  // of the devices of each
  std::int64_t count = 0;
};

Joined joined(const Composite& composite, const topology::Cluster& cluster, int host) {
  const Host& one = composite.hosts[at(host)];
  const auto leaf = [&](std::size_t local) { return leaf_of(cluster, one, local); };
  Joined result{by_turns(composite, cluster, host), {}, one.ports.size(), {}, {}};
  for (const int port : one.ports) result.turns.push_back(leaf(at(port)));
  if (std::ranges::count(result.turns, result.turns.front()) == std::ssize(result.turns)) result.turns.resize(1);
  const auto add = [&](std::map<Node, std::pair<double, int>>& to, const std::vector<double>& shares) {
    for (std::size_t local = 0; local < shares.size(); ++local)
      if (shares[local] > 0) {
        auto& [part, devices] = to[leaf(local)];
        part += shares[local];
        ++devices;
      }
  };
  add(result.leaves, shares_of_leaving(composite, host));
  add(result.enters, shares_of_entering(composite, host));
  return result;
}

using Alike = std::pair<const Joined, Hosts>;

void add_pairs(LeafTraffic& traffic, Node from, const Alike& senders, const Alike& receivers, double ranks) {
  const auto& [a, sending] = senders;
  const auto& [b, receiving] = receivers;
  const bool same = &senders == &receivers;
  const std::int64_t pairs = sending.count * (receiving.count - (same ? 1 : 0));
  if (pairs == 0) return;
  const double bytes = (sending.devices * receiving.devices - (same ? sending.squares : 0)) / ranks;
  if (!a.by_turns || !b.by_turns) {
    const auto leaving = a.leaves.find(from);
    if (leaving == a.leaves.end()) return;
    for (const auto& [to, entering] : b.enters)
      traffic.add(to, bytes * leaving->second.first * entering.first, pairs * leaving->second.second * entering.second);
    return;
  }
  const std::size_t ports = std::max(a.ports, b.ports);
  const std::size_t turns = std::max(a.turns.size(), b.turns.size()) == 1 ? 1 : ports;
  for (std::size_t turn = 0; turn < turns; ++turn)
    if (a.turns[turn % a.turns.size()] == from)
      traffic.add(b.turns[turn % b.turns.size()], bytes / static_cast<double>(turns),
                  pairs * static_cast<std::int64_t>(ports / turns));
}

using ByLeaves = std::map<std::pair<Node, Node>, LinkLoad>;  // from, to

bool is_unicast(Collective collective) {
  return collective == Collective::alltoall || collective == Collective::gather || collective == Collective::scatter;
}

// Ports near sources and ports near sinks meet in all pairs.
void add_by_shares(const Composite& composite, const topology::Cluster& cluster, int from, int to, double bytes,
                   ByLeaves& by_leaves) {
  const std::vector<double> leaves = shares_of_leaving(composite, from);
  const std::vector<double> enters = shares_of_entering(composite, to);
  for (std::size_t a = 0; a < leaves.size(); ++a)
    for (std::size_t b = 0; b < enters.size(); ++b)
      if (leaves[a] > 0 && enters[b] > 0) {
        LinkLoad& load =
            by_leaves[{leaf_of(cluster, composite.hosts[at(from)], a), leaf_of(cluster, composite.hosts[at(to)], b)}];
        load.bytes += bytes * leaves[a] * enters[b];
        ++load.connections;
      }
}

void add_by_turns(const topology::Cluster& cluster, const Host& from, const Host& to, double bytes,
                  ByLeaves& by_leaves) {
  const auto leaf = [&](const Host& host, std::size_t turn) {
    return leaf_of(cluster, host, at(host.ports[turn % host.ports.size()]));
  };
  const std::size_t turns = std::max(from.ports.size(), to.ports.size());
  ByLeaves::value_type* last = nullptr;  // mostly all ports have one leaf switch
  for (std::size_t turn = 0; turn < turns; ++turn) {
    const std::pair leaves{leaf(from, turn), leaf(to, turn)};
    if (last == nullptr || last->first != leaves) last = &*by_leaves.try_emplace(leaves).first;
    last->second.bytes += bytes / static_cast<double>(turns);
    ++last->second.connections;
  }
}

}  // namespace

void LeafTraffic::lay(Node from, Paths paths) { paths == Paths::each ? lay_each(from) : lay_together(from); }

void LeafTraffic::lay_each(Node from) {
  std::sort(targets_.begin(), targets_.end());
  for (const Node to : targets_) {
    LinkLoad& load = to_[at(to)];
    loads_.add(ways_.way(from, to), load.bytes, load.connections);
    load = {};
  }
  targets_.clear();
}

void LeafTraffic::lay_together(Node from) {
  const auto& tree = ways_.tree(from);
  for (auto edge = tree.rbegin(); edge != tree.rend(); ++edge) {
    const LinkLoad load = std::exchange(to_[at(edge->second)], {});
    if (load.connections == 0) continue;
    loads_.add(*edge, load.bytes, load.connections);
    LinkLoad& before = to_[at(edge->first)];
    before.bytes += load.bytes;
    before.connections += load.connections;
  }
  to_[at(from)] = {};
  for (const Node to : targets_) to_[at(to)] = {};  // where no path leads
  targets_.clear();
}

void lay_pairs(const Composite& composite, const topology::Cluster& cluster, const SumsByKey& pairs, Paths paths,
               LeafTraffic& traffic) {
  ByLeaves by_leaves;
  for (const auto& [pair, bytes] : pairs.ascending()) {
    const auto from = static_cast<int>(pair >> 32);
    const auto to = static_cast<int>(pair & 0xffffffff);
    if (is_unicast(composite.collective) && !(by_turns(composite, cluster, from) && by_turns(composite, cluster, to)))
      add_by_shares(composite, cluster, from, to, bytes, by_leaves);
    else
      add_by_turns(cluster, composite.hosts[at(from)], composite.hosts[at(to)], bytes, by_leaves);
  }
  for (auto one = by_leaves.begin(); one != by_leaves.end();) {
    const Node from = one->first.first;
    for (; one != by_leaves.end() && one->first.first == from; ++one)
      traffic.add(one->first.second, one->second.bytes, one->second.connections);
    traffic.lay(from, paths);
  }
}

void lay_alltoall(const Composite& composite, const topology::Cluster& cluster, LeafTraffic& traffic) {
  std::map<Joined, Hosts> all;
  for (std::size_t host = 0; host < composite.hosts.size(); ++host) {
    Hosts& alike = all[joined(composite, cluster, static_cast<int>(host))];
    const auto devices = static_cast<double>(composite.hosts[host].ranks.size());
    alike.devices += devices;
    alike.squares += devices * devices;
    ++alike.count;
  }
  std::map<Node, std::vector<const Alike*>> at_leaf;
  for (const Alike& one : all) {
    std::set<Node> leaves(one.first.turns.begin(), one.first.turns.end());
    for (const auto& [leaf, leaving] : one.first.leaves) leaves.insert(leaf);
    for (const Node leaf : leaves) at_leaf[leaf].push_back(&one);
  }
  for (const auto& [from, senders] : at_leaf) {
    for (const Alike* one : senders)
      for (const Alike& other : all) add_pairs(traffic, from, *one, other, composite.ranks());
    traffic.lay(from, Paths::together);
  }
}

}  // namespace sccl::compose
