#include "compose/expand.h"

#include "base/error.h"

namespace sccl::compose {

schedule::Schedule expand(const Composite& composite) {
  const Routes routes(composite);
  std::vector<schedule::Send> sends;
  std::vector<Move> moves;
  for (Rank rank = 0; rank < composite.ranks(); ++rank)
    routes.for_each_chunk_of(rank, [&](ChunkId chunk) {
      moves.clear();
      routes.moves(chunk, rank, moves);
      for (const Move& move : moves)
        if (move.sends) sends.push_back({chunk, rank, move.peer, move.step, move.kind});
      if (sends.size() > kMostFlatSends)
        fail(ErrorCode::invalid_argument,
             "composite '{}' on topology '{}' has more than {} sends: ask for its form by levels", composite.name,
             composite.topology->name, kMostFlatSends);
    });
  schedule::Schedule flat = schedule::make_schedule(composite.name, composite.collective, composite.root,
                                                    *composite.topology, composite.chunks_per_rank, std::move(sends));
  flat.pipelined = true;
  return flat;
}

}  // namespace sccl::compose
