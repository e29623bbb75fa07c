#include "schedule/lowering/sum_order.h"

#include <algorithm>
#include <map>
#include <span>
#include <vector>

namespace sccl::schedule {
namespace {

using Order = std::uint64_t;  // a hash of the expression that a rank holds

Order mix(Order a, Order b) {
  Order x = a * 0x9e3779b97f4a7c15u ^ (b + 0x7f4a7c15u + (a << 6) + (a >> 2));
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
  return x ^ (x >> 32);
}

Order leaf(Rank rank) { return mix(1, static_cast<Order>(rank) + 1); }

// Values that arrive at a rank in one step are added in one pass, in the order of their source ranks.
struct Arrival {
  Rank from;
  SendKind kind;
  Order value;
};

Order combined(Rank rank, Order own, bool contributes, std::vector<Arrival> arrivals) {
  if (const auto copy =
          std::find_if(arrivals.begin(), arrivals.end(), [](const Arrival& a) { return a.kind == SendKind::copy; });
      copy != arrivals.end())
    return copy->value;
  if (contributes) arrivals.push_back({rank, SendKind::reduce, own});
  if (arrivals.size() == 1) return arrivals.front().value;
  std::sort(arrivals.begin(), arrivals.end(), [](const Arrival& a, const Arrival& b) { return a.from < b.from; });
  Order sum = 2;
  for (const Arrival& arrival : arrivals) sum = mix(sum, arrival.value);
  return sum;
}

// `sends`: those of the chunk, by step.
Order order_of_chunk(const Schedule& schedule, ChunkId chunk, std::span<const Send> sends, Stars stars) {
  const ChunkEnds chunk_ends = ends(schedule, chunk);
  std::vector<Order> held(static_cast<std::size_t>(schedule.ranks), 0);
  for (Rank rank = 0; rank < schedule.ranks; ++rank)
    if (chunk_ends.contributes(rank)) held[static_cast<std::size_t>(rank)] = leaf(rank);
  const auto step_of = [&](const Send& send) {
    return stars == Stars::fused ? (send.kind == SendKind::reduce ? 0 : 1) : send.step;
  };
  for (std::size_t begin = 0; begin < sends.size();) {
    std::size_t end = begin;
    std::map<Rank, std::vector<Arrival>> by_receiver;
    for (; end < sends.size() && step_of(sends[end]) == step_of(sends[begin]); ++end)
      by_receiver[sends[end].dst].push_back(
          {sends[end].src, sends[end].kind, held[static_cast<std::size_t>(sends[end].src)]});
    for (auto& [rank, arrivals] : by_receiver) {
      Order& own = held[static_cast<std::size_t>(rank)];
      own = combined(rank, own, own != 0, std::move(arrivals));
    }
    begin = end;
  }
  Order result = 0;
  for (Rank rank = 0; rank < schedule.ranks; ++rank) {
    if (!chunk_ends.receives(rank)) continue;
    const Order here = held[static_cast<std::size_t>(rank)];
    if (result == 0) result = here;
    if (result != here) return mix(result, mix(3, here));  // ranks differ: equals no other order
  }
  return result;
}

}  // namespace

std::uint64_t sum_order(const Schedule& schedule, Stars stars) {
  if (!info(schedule.collective).reduces) return 0;
  std::vector<std::vector<Send>> by_chunk(static_cast<std::size_t>(schedule.chunks));
  for (const int position : order_by_step(schedule)) {
    const Send& send = schedule.sends[static_cast<std::size_t>(position)];
    by_chunk[static_cast<std::size_t>(send.chunk)].push_back(send);
  }
  std::vector<Order> orders;
  for (ChunkId chunk = 0; chunk < schedule.chunks; ++chunk)
    orders.push_back(order_of_chunk(schedule, chunk, by_chunk[static_cast<std::size_t>(chunk)], stars));
  if (!schedule.pipelined &&
      std::all_of(orders.begin(), orders.end(), [&](Order order) { return order == orders.front(); }))
    return orders.front();
  Order all = mix(4, static_cast<Order>(schedule.chunks));
  for (const Order order : orders) all = mix(all, order);
  if (schedule.pipelined)  // lowering decides which values arrive together
    for (const char letter : schedule.name) all = mix(all, static_cast<Order>(letter));
  for (const double weight : schedule.weights) all = mix(all, static_cast<Order>(weight * 1e9));
  return all;
}

}  // namespace sccl::schedule
