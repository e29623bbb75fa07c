#include "compose/lowering/host_share.h"

#include <algorithm>
#include <array>
#include <utility>

namespace sccl::compose {
namespace {

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

// Hosts as shapes take them, racks in a circle and the hosts of each, and the chunks whose owners or root hosts are so
// many places further. A place is a number, of its rack and of the host in this.
class Circle {
 public:
  Circle(const Composite& composite, const Routes& routes)
      : composite_(composite),
        routes_(routes),
        hosts_of_rack_(static_cast<int>(racks_of(composite).front().size())),
        period_(composite.alike ? hosts_that_stand_for_all(composite) : 1) {
    const auto& racks = racks_of(composite);
    // The tier above takes racks in an order of its own.
    for (std::size_t rack = 0; rack < racks.size(); ++rack) {
      const auto& group = racks[racks.size() == 1 ? 0 : at(composite.tiers.back().groups.front()[rack])];
      order_.insert(order_.end(), group.begin(), group.end());
    }
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
      root_.push_back(place_[at(routes.root_host(chunk))]);
      auto& chunks = of_root_[at(root_.back())];
      number_.push_back(static_cast<int>(chunks.size()));
      chunks.push_back(chunk);
    }
  }

  static const std::vector<std::vector<int>>& racks_of(const Composite& composite) {
    return composite.tiers.front().groups;
  }

  // Whether every host is the root of as many chunks, or every one so many places after another one.
  bool closed() const {
    for (std::size_t place = 0; place < of_root_.size(); ++place)
      if (of_root_[place].size() != (place % at(period_) == 0 ? of_root_.front().size() : 0)) return false;
    return true;
  }

  // How many hosts stand for all.
  int period() const { return period_; }

  const std::vector<Rank>& ranks_at(int place) const { return composite_.hosts[at(order_[at(place)])].ranks; }
  int place(Rank rank) const { return place_[at(routes_.host_of(rank))]; }
  int local(Rank rank) const { return local_[at(rank)]; }
  // Of the next host, and of a host of the next rack.
  std::vector<int> next_places() const {
    std::vector<int> places;
    if (hosts_of_rack_ > 1) places.push_back(period_);
    if (static_cast<int>(order_.size()) > hosts_of_rack_) places.push_back(hosts_of_rack_);
    return places;
  }

  schedule::HostShare::Reach reach(int places) const {
    using Reach = schedule::HostShare::Reach;
    if (places == 0) return Reach::on_host;
    return places < hosts_of_rack_ ? Reach::in_rack : Reach::between_racks;
  }

  // How far `place` is behind `from`.
  int between(int from, int place) const {
    const int racks = static_cast<int>(order_.size()) / hosts_of_rack_;
    const int rack = (place / hosts_of_rack_ - from / hosts_of_rack_ + racks) % racks;
    const int host = (place % hosts_of_rack_ - from % hosts_of_rack_ + hosts_of_rack_) % hosts_of_rack_;
    return rack * hosts_of_rack_ + host;
  }

  // The chunk whose owner is `places` places before this one's.
  ChunkId before(ChunkId chunk, int places) const {
    if (!of_root_.empty()) return of_root_[at(between(places, root_[at(chunk)]))][at(number_[at(chunk)])];
    const Rank owner = chunk % composite_.ranks();
    return chunk - owner + ranks_at(between(places, place(owner)))[at(local(owner))];
  }

  // The ranks of the host at a place exchange a chunk with other hosts as those of the first host do with the chunk so
  // many places before it. On the host they may pass it on in another way.
  bool same_moves(ChunkId chunk, int place) const {
    for (std::size_t local = 0; local < ranks_at(place).size(); ++local)
      if (moves(chunk, ranks_at(place)[local], place) != moves(before(chunk, place), ranks_at(0)[local], 0))
        return false;
    return true;
  }

 private:
  // Each with how many places further its peer is.
  std::vector<std::array<int, 5>> moves(ChunkId chunk, Rank rank, int from) const {
    std::vector<Move> all;
    routes_.moves(chunk, rank, all);
    std::vector<std::array<int, 5>> result;
    for (const Move& move : all)
      if (const int places = between(from, place(move.peer)); places != 0)
        result.push_back({move.step, places, local(move.peer), move.sends ? 1 : 0, static_cast<int>(move.kind)});
    std::ranges::sort(result);
    return result;
  }

  const Composite& composite_;
  const Routes& routes_;
  int hosts_of_rack_;
  int period_;
  std::vector<int> order_;  // hosts by place
  std::vector<int> place_;  // by host
  std::vector<int> local_;  // by rank
  std::vector<std::vector<ChunkId>> of_root_;
  std::vector<int> root_, number_;  // by chunk
};

// Groups of the lowest tier are the racks, all of them if there is one.
bool groups_are_racks(const Composite& composite, const HostWays& ways) {
  const auto& groups = composite.tiers.front().groups;
  const auto racks = static_cast<std::size_t>(*std::ranges::max_element(ways.rack_of)) + 1;
  if (groups.size() != racks || composite.tiers.size() != (racks == 1 ? 1 : 2)) return false;
  if (composite.tiers.back().groups.size() != 1) return false;
  return std::ranges::all_of(groups, [&](const std::vector<int>& group) {
    return group.size() == groups.front().size() && std::ranges::all_of(group, [&](int host) {
             return ways.rack_of[at(host)] == ways.rack_of[at(group.front())];
           });
  });
}

// Whether the roots of its trees may be all hosts, each with the same trees.
bool may_turn(const Composite& composite) {
  const Collective collective = composite.collective;
  const bool serves = collective == Collective::allgather || collective == Collective::reducescatter ||
                      (collective == Collective::allreduce && composite.meeting == Meeting::trees &&
                       (composite.alike || composite.root_hosts.size() == composite.hosts.size()));
  if (!serves || composite.order != nullptr || composite.tiers.empty()) return false;
  if (collective == Collective::allreduce && all_at_once_in_racks(composite)) return false;
  if (std::ranges::any_of(composite.tiers,
                          [](const Tier& tier) { return !tier.of_roots.empty() || !tier.leaves.empty(); }))
    return false;
  const Host& first = composite.hosts.front();
  return std::ranges::all_of(composite.hosts, [&](const Host& host) {
    return host.kind == first.kind && host.ports == first.ports && host.near == first.near &&
           host.ranks.size() == first.ranks.size();
  });
}

// By a few chunks, at the next hosts: most composites whose hosts do not do alike are known by these.
bool seems_to_turn(const Circle& circle, const Routes& routes) {
  constexpr int kFewChunks = 16;
  for (int i = 0; i < kFewChunks; ++i)
    for (const int place : circle.next_places())
      if (!circle.same_moves(
              static_cast<ChunkId>((std::int64_t{routes.chunks()} * i / kFewChunks + i) % routes.chunks()), place))
        return false;
  return true;
}

}  // namespace

bool HostShares::serves(const Composite& composite) const {
  return ways_ && may_turn(composite) && groups_are_racks(composite, *ways_);
}

std::optional<schedule::HostShare> HostShares::of(const Composite& composite) const {
  if (!serves(composite)) return std::nullopt;
  const Routes routes(composite);
  const Circle circle(composite, routes);
  if (!circle.closed() || !seems_to_turn(circle, routes)) return std::nullopt;
  const int hosts = circle.period();
  const std::optional<HostWays> of_several_hosts = hosts > 1 ? std::optional(of_several(*ways_, hosts)) : std::nullopt;
  const HostWays& ways = of_several_hosts ? *of_several_hosts : *ways_;
  const int devices = ways_->links.ranks;
  schedule::HostShare share;
  for (int place = 0; place < hosts; ++place)
    share.whole_ranks.insert(share.whole_ranks.end(), circle.ranks_at(place).begin(), circle.ranks_at(place).end());
  share.ranks = composite.ranks();
  share.ways = ways.ways;
  schedule::Schedule& made = share.schedule;
  Sum sent;
  Sum got;
  std::vector<Move> moves;
  for (std::size_t self = 0; self < share.whole_ranks.size(); ++self) {
    const auto here = static_cast<Rank>(self);
    const int place = here / devices;
    for (ChunkId chunk = 0; chunk < routes.chunks(); ++chunk) {
      moves.clear();
      routes.moves(chunk, share.whole_ranks[self], moves);
      for (const Move& move : moves) {
        const int peer_place = circle.place(move.peer);
        const int stands_at = peer_place % hosts;
        const Rank peer = stands_at * devices + circle.local(move.peer);
        if (!move.sends) {
          got.add({peer, here, circle.between(peer_place, place), chunk, move.step, static_cast<int>(move.kind)});
          continue;
        }
        const int places = circle.between(place, peer_place);
        const ChunkId arrives_as = circle.before(chunk, peer_place - stands_at);
        sent.add({here, peer, places, arrives_as, move.step, static_cast<int>(move.kind)});
        made.sends.push_back({chunk, here, peer, move.step, move.kind});
        share.beyond.push_back({move.peer, arrives_as, circle.reach(places)});
        made.steps = std::max(made.steps, move.step + 1);
      }
    }
  }
  if (!(sent == got)) return std::nullopt;
  made.name = composite.name;
  made.collective = composite.collective;
  made.ranks = ways.links.ranks;
  made.topology = ways.links;
  made.chunks = routes.chunks();
  made.chunks_per_rank = composite.chunks_per_rank;
  made.pipelined = true;
  return share;
}

}  // namespace sccl::compose
