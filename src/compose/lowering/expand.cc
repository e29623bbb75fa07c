#include "compose/lowering/expand.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "base/error.h"

namespace sccl::compose {

schedule::Schedule expand_without_rounds(const Composite& composite) {
  const Routes routes(composite);
  std::vector<schedule::Send> sends;
  sends.reserve(std::min(kMostFlatSends, about_sends(composite)));
  // By chunk modulo their number, which tells apart the chunks from frames that are alike to the next ones.
  struct Known {
    ChunkId chunk = -1;
    std::vector<Move> moves;
  };
  std::vector<Known> known(static_cast<std::size_t>(composite.ranks()) *
                           static_cast<std::size_t>(routes.frames_in_turn()));
  for (Rank rank = 0; rank < composite.ranks(); ++rank) {
    for (Known& one : known) one.chunk = -1;
    routes.for_each_chunk_of(rank, [&](ChunkId chunk) {
      const auto [first, later] = routes.in_first_frames(chunk);
      Known& of = known[static_cast<std::size_t>(first) % known.size()];
      if (of.chunk != first) {
        of.chunk = first;
        of.moves.clear();
        routes.moves(first, rank, of.moves);
        std::erase_if(of.moves, [](const Move& move) { return !move.sends; });
      }
      for (const Move& move : of.moves) sends.push_back({chunk, rank, move.peer, move.step + later, move.kind});
      if (sends.size() > kMostFlatSends)
        fail(ErrorCode::invalid_argument,
             "composite '{}' on topology '{}' has more than {} sends: ask for its form by levels", composite.name,
             composite.topology->name, kMostFlatSends);
    });
  }
  schedule::Schedule flat;
  flat.name = composite.name;
  flat.collective = composite.collective;
  flat.ranks = composite.ranks();
  flat.root = composite.root;
  flat.root_lead = composite.root_lead;
  flat.topology = composite.whole ? *composite.whole : *composite.topology;
  flat.chunks_per_rank = composite.chunks_per_rank;
  flat.chunks = schedule::chunk_count(composite.collective, composite.ranks(), composite.chunks_per_rank);
  for (const schedule::Send& send : sends) flat.steps = std::max(flat.steps, send.step + 1);
  flat.rounds.assign(static_cast<std::size_t>(flat.steps), 1);
  flat.pipelined = true;
  flat.sends = std::move(sends);
  return flat;
}

schedule::Schedule expand(const Composite& composite) {
  schedule::Schedule flat = expand_without_rounds(composite);
  flat.rounds = schedule::needed_rounds(flat);
  return flat;
}

bool same_sends(const Composite& a, const Composite& b) {
  const auto same_tier = [](const Tier& one, const Tier& other) {
    return one.groups == other.groups && one.shapes == other.shapes && one.leaves == other.leaves &&
           one.of_roots == other.of_roots;
  };
  return a.collective == b.collective && a.root == b.root && a.topology == b.topology && a.whole == b.whole &&
         a.chunks_per_rank == b.chunks_per_rank && a.frames == b.frames && a.frame_steps == b.frame_steps &&
         a.staggered == b.staggered && a.root_lead == b.root_lead && a.meeting == b.meeting && a.order == b.order &&
         a.kinds == b.kinds && a.source_is_near == b.source_is_near && a.turns_are_rails == b.turns_are_rails &&
         a.rails_of_pairs == b.rails_of_pairs && a.pace_across == b.pace_across && a.sink_is_near == b.sink_is_near &&
         a.hosts == b.hosts && std::ranges::equal(a.tiers, b.tiers, same_tier) && a.root_hosts == b.root_hosts &&
         a.root_turns == b.root_turns && a.at_root == b.at_root;
}

std::size_t about_sends(const Composite& composite) {
  const auto ranks = static_cast<std::size_t>(composite.ranks());
  const std::size_t hosts = composite.hosts.size();
  const auto chunks = static_cast<std::size_t>(
      schedule::chunk_count(composite.collective, composite.ranks(), composite.chunks_per_rank));
  const schedule::ChunkEnds ends = schedule::ends(composite.collective, composite.ranks(), composite.root, 0);
  if (!ends.everyone_contributes && !ends.everyone_receives) return chunks;
  if (composite.meeting == Meeting::butterfly) {
    const auto rounds = static_cast<std::size_t>(std::bit_width(hosts)) - 1;
    const std::size_t paired = std::bit_floor(hosts);
    return chunks * (2 * (ranks - hosts) + paired * rounds + 2 * (hosts - paired));
  }
  const std::size_t ways = (ends.everyone_contributes ? 1 : 0) + (ends.everyone_receives ? 1 : 0);
  return chunks * ways * (ranks - 1);
}

}  // namespace sccl::compose
