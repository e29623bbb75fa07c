#include "treegen/packing/rings.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "treegen/packing/choose.h"

namespace sccl::treegen {
namespace {

using schedule::ChunkId;
using schedule::Send;
using schedule::SendKind;

constexpr int kMostRanks = 8;  // up to this number all cycles are listed: at most 7! / 2

std::vector<RingOrder> all_cycles(const Links& links) {
  std::vector<RingOrder> cycles;
  RingOrder order{0};
  const std::function<void()> extend = [&] {
    if (static_cast<int>(order.size()) == links.ranks()) {
      // Each cycle is listed once, not once per direction.
      if (links.hop(order.back(), 0) >= 0 && order[1] <= order.back()) cycles.push_back(order);
      return;
    }
    for (Rank next = 1; next < links.ranks(); ++next) {
      if (links.hop(order.back(), next) < 0 || std::find(order.begin(), order.end(), next) != order.end()) continue;
      order.push_back(next);
      extend();
      order.pop_back();
    }
  };
  extend();
  return cycles;
}

std::vector<Use> uses_of(const Links& links, const RingOrder& cycle) {
  std::vector<int> times(links.capacities().size(), 0);
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const Rank from = cycle[i];
    const Rank to = cycle[(i + 1) % cycle.size()];
    for (const int hop : {links.hop(from, to), links.hop(to, from)})
      for (const Use& use : links.hops()[static_cast<std::size_t>(hop)].uses)
        times[static_cast<std::size_t>(use.capacity)] += use.times;
  }
  std::vector<Use> uses;
  for (int capacity = 0; capacity < static_cast<int>(times.size()); ++capacity)
    if (times[static_cast<std::size_t>(capacity)] > 0)
      uses.push_back({capacity, times[static_cast<std::size_t>(capacity)]});
  return uses;
}

int most_conceivable(const Topology& topology) {
  std::vector<int> lanes(static_cast<std::size_t>(topology.ranks), 0);
  for (const topology::Link& link : topology.links) lanes[static_cast<std::size_t>(link.src)] += link.lanes;
  return *std::min_element(lanes.begin(), lanes.end()) / 2;
}

// Places along a ring, and chains of sends between them.
class Ring {
 public:
  Ring(const RingOrder& order, std::vector<Send>& sends) : order_(order), sends_(sends) {}

  int ranks() const { return static_cast<int>(order_.size()); }
  int place(Rank rank) const {
    return static_cast<int>(std::find(order_.begin(), order_.end(), rank) - order_.begin());
  }

  // A chain past all ranks, beginning at `place`.
  void chain(ChunkId chunk, int place, schedule::Step first_step, SendKind kind) {
    for (int hop = 0; hop + 1 < ranks(); ++hop)
      sends_.push_back({chunk, at(place + hop), at(place + hop + 1), first_step + hop, kind});
  }

 private:
  Rank at(int place) const { return order_[static_cast<std::size_t>(place % ranks())]; }

  const RingOrder& order_;
  std::vector<Send>& sends_;
};

// One chunk of a block: reduced towards its owner, or copied from the owner, or both, as the collective requires.
void add_block(Ring& ring, Collective collective, ChunkId chunk, Rank owner) {
  const bool reduces = info(collective).reduces;
  const bool copies = collective != Collective::reduce && collective != Collective::reducescatter;
  const int place = ring.place(owner);
  if (reduces) ring.chain(chunk, place + 1, 0, SendKind::reduce);
  if (copies) ring.chain(chunk, place, reduces ? ring.ranks() - 1 : 0, SendKind::copy);
}

}  // namespace

DisjointCycles disjoint_cycles(const Topology& topology) {
  const Links links(topology);
  if (topology.ranks < 3 || topology.ranks > kMostRanks || topology.nodes() > topology.ranks ||
      links.has_shared_sets() || !links.symmetric())
    return {};
  const auto cycles = all_cycles(links);
  Question question;
  for (const Capacity& capacity : links.capacities()) question.capacities.push_back(capacity.amount);
  for (const RingOrder& cycle : cycles) question.candidates.push_back(uses_of(links, cycle));
  DisjointCycles result;
  result.most_proved = true;
  for (int number = cycles.empty() ? 0 : most_conceivable(topology); number > 0; --number) {
    question.trees_by_weight = {{1, number}};
    Choice choice;
    const auto verdict = choose(question, choice);
    if (verdict == Verdict::gave_up) result.most_proved = false;
    if (verdict != Verdict::found) continue;
    for (const int index : choice.candidates) result.cycles.push_back(cycles[static_cast<std::size_t>(index)]);
    break;
  }
  return result;
}

schedule::Schedule rings_along(const std::vector<RingOrder>& one_way, const Topology& topology, Collective collective,
                               Rank root) {
  if (one_way.empty())
    fail(ErrorCode::invalid_argument, "{} over no ring at all on '{}': give at least one", info(collective).call_name,
         topology.name);
  const bool by_rank = !info(collective).rooted;
  const int owners = by_rank ? topology.ranks : 1;
  std::vector<Send> sends;
  ChunkId chunk = 0;
  for (const RingOrder& order : one_way) {
    Ring ring(order, sends);
    for (Rank owner = 0; owner < owners; ++owner) add_block(ring, collective, chunk++, by_rank ? owner : root);
  }
  const int per_rank = collective == Collective::allgather ? chunk / owners : chunk;
  auto schedule = schedule::make_schedule("rings", collective, root, topology, per_rank, std::move(sends));
  schedule.pipelined = true;
  return schedule;
}

std::optional<schedule::Schedule> rings(const Topology& topology, Collective collective, Rank root) {
  switch (collective) {
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::allreduce:
    case Collective::allgather:
    case Collective::reducescatter:
      break;
    default:
      return std::nullopt;
  }
  std::vector<RingOrder> one_way;
  for (const RingOrder& cycle : disjoint_cycles(topology).cycles) {
    one_way.push_back(cycle);
    one_way.emplace_back(cycle.rbegin(), cycle.rend());
  }
  if (one_way.empty()) return std::nullopt;
  return rings_along(one_way, topology, collective, root);
}

}  // namespace sccl::treegen
