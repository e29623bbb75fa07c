#include "schedule/lowering/rank_part.h"

#include <algorithm>
#include <tuple>

namespace sccl::schedule {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// By send: whether the receiver's value holds every contribution after the arrivals of the send's step.
std::vector<bool> completing_sends(const Schedule& schedule) {
  std::vector<bool> completes(schedule.sends.size(), false);
  if (!info(schedule.collective).reduces) return completes;
  std::vector<int> held(at(schedule.chunks) * at(schedule.ranks));
  const auto of = [&](ChunkId chunk, Rank rank) -> int& { return held[at(chunk) * at(schedule.ranks) + at(rank)]; };
  for (ChunkId chunk = 0; chunk < schedule.chunks; ++chunk)
    for (Rank rank = 0; rank < schedule.ranks; ++rank) of(chunk, rank) = ends(schedule, chunk).contributes(rank);

  std::vector<int> order = order_by_step(schedule);
  const auto send = [&](int position) -> const Send& { return schedule.sends[at(position)]; };
  for (auto begin = order.begin(); begin != order.end();) {
    const auto end =
        std::find_if(begin, order.end(), [&](int position) { return send(position).step != send(*begin).step; });
    std::sort(begin, end, [&](int a, int b) {
      return std::tie(send(a).dst, send(a).chunk, send(a).src) < std::tie(send(b).dst, send(b).chunk, send(b).src);
    });
    std::vector<int> arriving;  // read before this step's arrivals change any value
    for (auto one = begin; one != end; ++one) arriving.push_back(of(send(*one).chunk, send(*one).src));
    for (auto one = begin; one != end;) {
      const Send& first = send(*one);
      int& value = of(first.chunk, first.dst);
      if (first.kind == SendKind::copy) value = 0;
      auto last = one;
      for (; last != end && send(*last).dst == first.dst && send(*last).chunk == first.chunk; ++last)
        value += arriving[static_cast<std::size_t>(last - begin)];
      const bool complete = first.kind == SendKind::reduce && value == schedule.ranks;
      for (; one != last; ++one) completes[at(*one)] = complete;
    }
    begin = end;
  }
  return completes;
}

}  // namespace

std::vector<RankPart> parts_of(const Schedule& schedule) {
  std::vector<RankPart> parts(at(schedule.ranks));
  for (Rank rank = 0; rank < schedule.ranks; ++rank) {
    RankPart& part = parts[at(rank)];
    part.collective = schedule.collective;
    part.ranks = schedule.ranks;
    part.root = schedule.root;
    part.root_lead = schedule.root_lead;
    part.rank = rank;
  }
  for (ChunkId chunk = 0; chunk < schedule.chunks; ++chunk) {
    const ChunkEnds chunk_ends = ends(schedule, chunk);
    if (!chunk_ends.everyone_receives) {
      parts[at(chunk_ends.sink)].chunks.push_back(chunk);
      continue;
    }
    for (RankPart& part : parts) part.chunks.push_back(chunk);
  }
  for (const Send& send : schedule.sends)
    for (const Rank rank : {send.src, send.dst}) parts[at(rank)].chunks.push_back(send.chunk);
  for (RankPart& part : parts) {
    std::sort(part.chunks.begin(), part.chunks.end());
    part.chunks.erase(std::unique(part.chunks.begin(), part.chunks.end()), part.chunks.end());
  }
  const std::vector<bool> completes = completing_sends(schedule);
  for (std::size_t i = 0; i < schedule.sends.size(); ++i) {
    const Send& send = schedule.sends[i];
    const auto add = [&](Rank rank, Direction direction, Rank peer) {
      RankPart& part = parts[at(rank)];
      const auto found = std::lower_bound(part.chunks.begin(), part.chunks.end(), send.chunk);
      const auto position = static_cast<int>(found - part.chunks.begin());
      part.messages.push_back({send.step, direction, position, peer, send.kind, completes[i]});
    };
    add(send.src, Direction::outgoing, send.dst);
    add(send.dst, Direction::incoming, send.src);
  }
  for (RankPart& part : parts) sort_messages(part);
  return parts;
}

void sort_messages(RankPart& part) {
  std::sort(part.messages.begin(), part.messages.end(), [](const RankPart::Message& a, const RankPart::Message& b) {
    return std::tie(a.step, a.direction, a.chunk, a.peer) < std::tie(b.step, b.direction, b.chunk, b.peer);
  });
}

}  // namespace sccl::schedule
