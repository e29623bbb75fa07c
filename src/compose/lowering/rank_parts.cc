#include "compose/lowering/rank_parts.h"

#include <algorithm>

namespace sccl::compose {
namespace {

using Message = schedule::RankPart::Message;

// Marks the last reductions among a chunk's messages.
void mark_completing(std::span<Message> of_chunk) {
  const auto reduces = [](const Message& one) {
    return one.direction == schedule::Direction::incoming && one.kind == SendKind::reduce;
  };
  Step last = -1;
  for (const Message& one : of_chunk)
    if (reduces(one)) last = std::max(last, one.step);
  for (Message& one : of_chunk) one.completes = reduces(one) && one.step == last;
}

}  // namespace

schedule::RankPart RankParts::of(Rank rank) const {
  schedule::RankPart part;
  part.collective = composite_->collective;
  part.ranks = composite_->ranks();
  part.root = composite_->root;
  part.root_lead = composite_->root_lead;
  part.rank = rank;
  std::vector<Move> moves;
  routes_.for_each_chunk_of(rank, [&](ChunkId chunk) {
    moves.clear();
    routes_.moves(chunk, rank, moves);
    const bool ends_here = schedule::ends(part.collective, part.ranks, part.root, chunk).receives(rank);
    if (moves.empty() && !ends_here) return;
    const auto position = static_cast<int>(part.chunks.size());
    part.chunks.push_back(chunk);
    const std::size_t first = part.messages.size();
    for (const Move& move : moves) {
      const auto direction = move.sends ? schedule::Direction::outgoing : schedule::Direction::incoming;
      part.messages.push_back({move.step, direction, position, move.peer, move.kind, false});
    }
    if (routes_.completes_sum(chunk, rank)) mark_completing(std::span(part.messages).subspan(first));
  });
  schedule::sort_messages(part);
  return part;
}

}  // namespace sccl::compose
