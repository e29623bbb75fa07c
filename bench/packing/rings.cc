#include "rings.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "treegen/choose.h"
#include "treegen/links.h"

namespace sccl::bench {
namespace {

using schedule::Send;
using schedule::SendKind;
using treegen::Links;

std::vector<RingOrder> all_cycles(const Links& links) {
  std::vector<RingOrder> cycles;
  RingOrder order{0};
  const std::function<void()> extend = [&] {
    if (static_cast<int>(order.size()) == links.ranks()) {
      // Each cycle once, not once for either direction.
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

std::vector<treegen::Use> uses_of(const Links& links, const RingOrder& cycle) {
  std::vector<treegen::Use> uses;
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const Rank from = cycle[i];
    const Rank to = cycle[(i + 1) % cycle.size()];
    for (const int hop : {links.hop(from, to), links.hop(to, from)})
      uses = treegen::merged(std::move(uses), links.hops()[static_cast<std::size_t>(hop)].uses);
  }
  return uses;
}

topology::Topology pcie_ring(const topology::Topology& nvlink) {
  topology::Topology ring;
  ring.name = nvlink.name + " over PCIe";
  ring.ranks = nvlink.ranks;
  const topology::Link& like = nvlink.links.front();
  const double gbytes_per_s = kPcieLanes * like.gbytes_per_s / like.lanes;
  for (Rank rank = 0; rank < ring.ranks; ++rank)
    ring.links.push_back({rank, (rank + 1) % ring.ranks, 1, gbytes_per_s, like.alpha_us, topology::LinkClass::pcie});
  return ring;
}

// Every rank once, along the ring from `start`.
std::vector<Rank> from(const RingOrder& ring, std::size_t start) {
  std::vector<Rank> order(ring);
  std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(start), order.end());
  return order;
}

void add_broadcast(const RingOrder& ring, schedule::ChunkId chunk, std::vector<Send>& sends) {
  const auto root = std::find(ring.begin(), ring.end(), 0) - ring.begin();
  const auto order = from(ring, static_cast<std::size_t>(root));
  for (std::size_t i = 0; i + 1 < order.size(); ++i)
    sends.push_back({chunk, order[i], order[i + 1], static_cast<int>(i), SendKind::copy});
}

// One chunk for every rank of the ring.
void add_allreduce(const RingOrder& ring, schedule::ChunkId first_chunk, std::vector<Send>& sends) {
  const int ranks = static_cast<int>(ring.size());
  for (int share = 0; share < ranks; ++share) {
    const auto order = from(ring, static_cast<std::size_t>(share));
    for (int hop = 0; hop < 2 * (ranks - 1); ++hop)
      sends.push_back({first_chunk + share, order[static_cast<std::size_t>(hop % ranks)],
                       order[static_cast<std::size_t>((hop + 1) % ranks)], hop,
                       hop < ranks - 1 ? SendKind::reduce : SendKind::copy});
  }
}

}  // namespace

std::vector<RingOrder> disjoint_cycles(const topology::Topology& topology) {
  const Links links(topology);
  const auto cycles = all_cycles(links);
  treegen::Question question;
  for (const treegen::Capacity& capacity : links.capacities()) question.capacities.push_back(capacity.amount);
  // A cycle may be used as often as its links have lanes.
  for (const RingOrder& cycle : cycles) question.candidates.push_back(uses_of(links, cycle));
  std::vector<int> lanes(static_cast<std::size_t>(topology.ranks), 0);
  for (const topology::Link& link : topology.links) lanes[static_cast<std::size_t>(link.src)] += link.lanes;
  for (int number = *std::min_element(lanes.begin(), lanes.end()) / 2; number > 0; --number) {
    question.trees_by_weight = {{1, number}};
    treegen::Choice choice;
    const auto verdict = treegen::choose(question, choice);
    if (verdict == treegen::Verdict::gave_up)
      fail(ErrorCode::internal_error, "the number of disjoint cycles of '{}' was not decided", topology.name);
    if (verdict != treegen::Verdict::found) continue;
    std::vector<RingOrder> result;
    for (const int index : choice.candidates) result.push_back(cycles[static_cast<std::size_t>(index)]);
    return result;
  }
  return {};
}

RingRates ring_rates(const topology::Topology& topology) {
  const int cycles = static_cast<int>(disjoint_cycles(topology).size());
  const double ranks = topology.ranks;
  RingRates rates;
  rates.rings = 2 * cycles;
  rates.broadcast = cycles > 0 ? 2 * cycles : kPcieLanes;
  rates.allreduce = rates.broadcast * ranks / (2 * (ranks - 1));
  return rates;
}

schedule::Schedule ring_schedule(const topology::Topology& topology, Collective collective) {
  std::vector<RingOrder> rings;
  for (const RingOrder& cycle : disjoint_cycles(topology)) {
    rings.push_back(cycle);
    rings.emplace_back(cycle.rbegin(), cycle.rend());
  }
  const topology::Topology on = rings.empty() ? pcie_ring(topology) : topology;
  if (rings.empty()) {
    rings.emplace_back();
    for (Rank rank = 0; rank < topology.ranks; ++rank) rings.back().push_back(rank);
  }
  std::vector<Send> sends;
  int chunks = 0;
  for (const RingOrder& ring : rings) {
    if (collective == Collective::broadcast)
      add_broadcast(ring, chunks, sends);
    else
      add_allreduce(ring, chunks, sends);
    chunks += collective == Collective::broadcast ? 1 : topology.ranks;
  }
  auto schedule = schedule::make_schedule("rings", collective, 0, on, chunks, std::move(sends));
  schedule.pipelined = true;
  return schedule;
}

}  // namespace sccl::bench
