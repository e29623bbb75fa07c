#include "compose/lowering/host_share.h"

#include <algorithm>
#include <array>
#include <utility>

#include "topology/graph/routes.h"

namespace sccl::compose {
namespace {

constexpr int kMostRanksOfHost = 64;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// A sum over sends in any order that tells lists of them apart.
class Sum {
 public:
  void add(std::initializer_list<int> figures) {
    std::uint64_t hash = 0x9e3779b97f4a7c15;
    for (const int figure : figures) {
      hash ^= static_cast<std::uint32_t>(figure);
      hash *= 0xff51afd7ed558ccd;
      hash ^= hash >> 32;
    }
    sum_ += hash;
    ++count_;
  }
  bool operator==(const Sum&) const = default;

 private:
  std::uint64_t sum_ = 0;
  std::size_t count_ = 0;
};

// Hosts in the order in which shapes take them, and the chunks whose owners or root hosts are so many places further.
class Circle {
 public:
  Circle(const Composite& composite, const Routes& routes)
      : composite_(composite), routes_(routes), order_(composite.tiers.front().groups.front()) {
    place_.resize(order_.size());
    for (std::size_t place = 0; place < order_.size(); ++place) place_[at(order_[place])] = static_cast<int>(place);
    local_.resize(at(composite.ranks()));
    for (const Host& host : composite.hosts)
      for (std::size_t local = 0; local < host.ranks.size(); ++local)
        local_[at(host.ranks[local])] = static_cast<int>(local);
    // Sums and copies of AllReduce have no owners: the nth chunk of a root host is like the nth one of any other.
    if (composite.collective != Collective::allreduce) return;
    of_root_.resize(order_.size());
    for (ChunkId chunk = 0; chunk < routes.chunks(); ++chunk) {
      auto& chunks = of_root_[at(place_[at(routes.root_host(chunk))])];
      number_.push_back(static_cast<int>(chunks.size()));
      root_.push_back(place_[at(routes.root_host(chunk))]);
      chunks.push_back(chunk);
    }
  }

  // Whether every host is the root of as many chunks.
  bool closed() const {
    return std::ranges::all_of(of_root_, [&](const auto& chunks) { return chunks.size() == of_root_.front().size(); });
  }

  const std::vector<Rank>& first_ranks() const { return composite_.hosts[at(order_.front())].ranks; }
  int place(Rank rank) const { return place_[at(routes_.host_of(rank))]; }
  int local(Rank rank) const { return local_[at(rank)]; }

  // The chunk whose owner is `places` places before this one's: less than a round.
  ChunkId before(ChunkId chunk, int places) const {
    if (!of_root_.empty()) return of_root_[at(around(root_[at(chunk)] - places))][at(number_[at(chunk)])];
    const int ranks = composite_.ranks();
    const Rank owner = chunk % ranks;
    const int host = order_[at(around(place(owner) - places))];
    return chunk - owner + composite_.hosts[at(host)].ranks[at(local(owner))];
  }

  int around(int place) const {
    const auto hosts = static_cast<int>(order_.size());
    return (place + hosts) % hosts;
  }

  // The ranks of the host at a place exchange a chunk with other hosts as those of the first host do with the chunk so
  // many places before it. On the host they may pass it on in another way.
  bool same_moves(ChunkId chunk, int place) const {
    const auto& ranks = composite_.hosts[at(order_[at(place)])].ranks;
    for (std::size_t local = 0; local < ranks.size(); ++local)
      if (moves(chunk, ranks[local], place) != moves(before(chunk, place), first_ranks()[local], 0)) return false;
    return true;
  }

 private:
  // Each with how many places further its peer is.
  std::vector<std::array<int, 5>> moves(ChunkId chunk, Rank rank, int from) const {
    std::vector<Move> all;
    routes_.moves(chunk, rank, all);
    std::vector<std::array<int, 5>> result;
    for (const Move& move : all)
      if (const int places = around(place(move.peer) - from); places != 0)
        result.push_back({move.step, places, local(move.peer), move.sends ? 1 : 0, static_cast<int>(move.kind)});
    std::ranges::sort(result);
    return result;
  }

  const Composite& composite_;
  const Routes& routes_;
  const std::vector<int>& order_;
  std::vector<int> place_;  // by host
  std::vector<int> local_;  // by rank
  std::vector<std::vector<ChunkId>> of_root_;
  std::vector<int> root_, number_;  // by chunk
};

// Whether the roots of its trees may be all hosts, each with the same trees.
bool may_turn(const Composite& composite) {
  const Collective collective = composite.collective;
  const bool serves = collective == Collective::allgather || collective == Collective::reducescatter ||
                      (collective == Collective::allreduce && composite.meeting == Meeting::trees &&
                       composite.root_hosts.size() == composite.hosts.size());
  if (!serves || composite.order != nullptr || composite.tiers.size() != 1) return false;
  const Tier& tier = composite.tiers.front();
  if (tier.groups.size() != 1 || !tier.of_roots.empty()) return false;
  const Host& first = composite.hosts.front();
  return first.ranks.size() <= at(kMostRanksOfHost) && std::ranges::all_of(composite.hosts, [&](const Host& host) {
           return host.kind == first.kind && host.ports == first.ports && host.near == first.near &&
                  host.ranks.size() == first.ranks.size();
         });
}

// By a few chunks, at the second host: most composites whose hosts do not do alike are known by these.
bool seems_to_turn(const Circle& circle, const Routes& routes) {
  constexpr int kFewChunks = 16;
  for (int i = 0; i < kFewChunks; ++i)
    if (!circle.same_moves(static_cast<ChunkId>(std::int64_t{routes.chunks()} * i / kFewChunks), 1)) return false;
  return true;
}

// The same links to the same leaf switches as the first host's.
bool same_attachments(const topology::Cluster& cluster, const schedule::EdgeIndex& edges, int host) {
  const auto& nodes = cluster.nodes[at(host)];
  const auto& first_nodes = cluster.nodes.front();
  const auto same_node = [&](topology::Node node, topology::Node first) {
    if (node == first) return true;  // a switch of the network
    const auto found = std::ranges::find(nodes, node);
    return found != nodes.end() && first_nodes[static_cast<std::size_t>(found - nodes.begin())] == first;
  };
  const auto same_way = [&](const auto& way, const auto& first) {
    return std::ranges::equal(way, first, [&](const topology::Edge& edge, const topology::Edge& other) {
      if (!same_node(edge.first, other.first) || !same_node(edge.second, other.second)) return false;
      const schedule::EdgeInfo& a = edges[edges.find(edge)];
      const schedule::EdgeInfo& b = edges[edges.find(other)];
      return a.lanes == b.lanes && a.gbytes_per_s == b.gbytes_per_s && a.alpha_us == b.alpha_us;
    });
  };
  for (std::size_t local = 0; local < cluster.hosts[at(host)].size(); ++local) {
    const auto& one = cluster.attachments[at(cluster.hosts[at(host)][local])];
    const auto& first = cluster.attachments[at(cluster.hosts.front()[local])];
    if (one.leaf != first.leaf || !same_way(one.up, first.up) || !same_way(one.down, first.down)) return false;
  }
  return true;
}

bool alike(const topology::Cluster& cluster, const schedule::EdgeIndex& edges) {
  const auto hosts = static_cast<int>(cluster.hosts.size());
  if (hosts < 2 || cluster.hosts.front().size() > at(kMostRanksOfHost)) return false;
  for (int host = 0; host < hosts; ++host)
    if (cluster.kind_of[at(host)] != cluster.kind_of.front() || !same_attachments(cluster, edges, host)) return false;
  return true;
}

}  // namespace

HostShares::HostShares(const topology::Topology& topology, const topology::Cluster& cluster,
                       const schedule::EdgeIndex& edges) {
  alike_ = alike(cluster, edges) && find_ways(topology, cluster) && take_links(topology, cluster);
}

// Between hosts: out of the first host as its data goes to the second one, and into it as that one's data comes.
bool HostShares::find_ways(const topology::Topology& topology, const topology::Cluster& cluster) {
  const std::vector<bool> of_network = topology::network_switches(topology, cluster);
  topology::Routes routes(topology);
  const auto& first = cluster.hosts[0];
  const auto& second = cluster.hosts[1];
  for (const Rank src : first)
    for (const Rank dst : first) {
      const auto way = routes.path(src, dst);
      on_host_.emplace_back(way.begin(), way.end());
    }
  // The edge that leads to the only switch of the network.
  const auto leaf = [&](std::span<const topology::Edge> way) {
    const auto enters = [&](const topology::Edge& edge) { return of_network[at(edge.second)]; };
    return std::ranges::count_if(way, enters) == 1 ? std::ranges::find_if(way, enters) : way.end();
  };
  for (std::size_t src = 0; src < first.size(); ++src)
    for (std::size_t dst = 0; dst < first.size(); ++dst) {
      auto& way = between_hosts_.emplace_back();
      const auto out = routes.path(first[src], second[dst]);
      const auto left = leaf(out);
      if (left == out.end()) return false;
      way.assign(out.begin(), left + 1);
      const auto back = routes.path(second[src], first[dst]);
      const auto entered = leaf(back);
      if (entered == back.end() || entered->second != way.back().second) return false;
      way.insert(way.end(), entered + 1, back.end());
    }
  return true;
}

bool HostShares::take_links(const topology::Topology& topology, const topology::Cluster& cluster) {
  std::vector<topology::Node> number(at(topology.nodes()), -1);
  links_.name = topology.name;
  links_.ranks = static_cast<int>(cluster.hosts.front().size());
  int nodes = 0;
  const auto take = [&](topology::Node node) {
    if (number[at(node)] < 0) number[at(node)] = nodes++;
  };
  for (const Rank rank : cluster.hosts.front()) take(rank);
  for (const topology::Node node : cluster.nodes.front()) take(node);
  for (auto* ways : {&on_host_, &between_hosts_})
    for (auto& way : *ways)
      for (topology::Edge& edge : way) {
        take(edge.first);
        take(edge.second);
        edge = {number[at(edge.first)], number[at(edge.second)]};
      }
  links_.switches = nodes - links_.ranks;
  for (topology::Link link : topology.links) {
    link.src = number[at(link.src)];
    link.dst = number[at(link.dst)];
    if (link.src >= 0 && link.dst >= 0) links_.links.push_back(link);
  }
  for (topology::SharedSet set : topology.shared) {
    std::size_t inside = 0;
    for (auto& [src, dst] : set.links) {
      src = number[at(src)];
      dst = number[at(dst)];
      if (src >= 0 && dst >= 0) ++inside;
    }
    if (inside == 0) continue;
    if (inside != set.links.size()) return false;  // hosts share links
    links_.shared.push_back(std::move(set));
  }
  return true;
}

bool HostShares::serves(const Composite& composite) const { return alike_ && may_turn(composite); }

std::optional<schedule::HostShare> HostShares::of(const Composite& composite) const {
  if (!serves(composite)) return std::nullopt;
  const Routes routes(composite);
  const Circle circle(composite, routes);
  if (!circle.closed() || !seems_to_turn(circle, routes)) return std::nullopt;
  schedule::HostShare share;
  share.whole_ranks = circle.first_ranks();
  share.ranks = composite.ranks();
  share.on_host = on_host_;
  share.between_hosts = between_hosts_;
  schedule::Schedule& made = share.schedule;
  Sum sent;
  Sum got;
  std::vector<Move> moves;
  for (std::size_t local = 0; local < share.whole_ranks.size(); ++local) {
    const auto self = static_cast<Rank>(local);
    for (ChunkId chunk = 0; chunk < routes.chunks(); ++chunk) {
      moves.clear();
      routes.moves(chunk, share.whole_ranks[local], moves);
      for (const Move& move : moves) {
        const int places = circle.place(move.peer);
        const Rank peer = circle.local(move.peer);
        if (!move.sends) {
          got.add({peer, self, circle.around(-places), chunk, move.step, static_cast<int>(move.kind)});
          continue;
        }
        const ChunkId arrives_as = circle.before(chunk, places);
        sent.add({self, peer, places, arrives_as, move.step, static_cast<int>(move.kind)});
        made.sends.push_back({chunk, self, peer, move.step, move.kind});
        share.beyond.push_back({move.peer, arrives_as});
        made.steps = std::max(made.steps, move.step + 1);
      }
    }
  }
  if (!(sent == got)) return std::nullopt;
  made.name = composite.name;
  made.collective = composite.collective;
  made.ranks = links_.ranks;
  made.topology = links_;
  made.chunks = routes.chunks();
  made.chunks_per_rank = composite.chunks_per_rank;
  made.pipelined = true;
  return share;
}

}  // namespace sccl::compose
