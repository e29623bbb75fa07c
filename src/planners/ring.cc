// Ring schedules: rank r sends to r+1 only. Chunk c of an unrooted collective starts or ends at its owner c mod n.
#include "planners/planners.h"
#include "planners/route.h"

namespace sccl::planners {
namespace {

// `distance` hops along the ring from `rank`; negative distances go back.
Rank hop(Rank rank, int distance, int ranks) { return ((rank + distance) % ranks + ranks) % ranks; }

// Chunk c goes once round the ring, starting at owner + 1 so that its owner reduces last.
void reduce_scatter_phase(RouteBuilder& route, int ranks) {
  for (int chunk = 0; chunk < ranks; ++chunk)
    for (int step = 0; step + 1 < ranks; ++step)
      route.reduce(chunk, hop(chunk, step + 1, ranks), hop(chunk, step + 2, ranks), step);
}

void all_gather_phase(RouteBuilder& route, int ranks, int first_step) {
  for (int chunk = 0; chunk < ranks; ++chunk)
    for (int step = 0; step + 1 < ranks; ++step)
      route.copy(chunk, hop(chunk, step, ranks), hop(chunk, step + 1, ranks), first_step + step);
}

// From `from` along the ring to `to`.
void forward(RouteBuilder& route, int chunk, Rank from, Rank to, int ranks, int first_step) {
  for (Rank at = from; at != to; at = hop(at, 1, ranks))
    route.copy(chunk, at, hop(at, 1, ranks), first_step++);
}

void all_to_all_phase(RouteBuilder& route, int ranks) {
  for (Rank target = 0; target < ranks; ++target)
    for (Rank source = 0; source < ranks; ++source)
      forward(route, target * ranks + source, source, target, ranks, 0);
}

}  // namespace

std::optional<Schedule> ring(const Topology& topology, Collective collective, Rank root) {
  const int ranks = topology.ranks;
  RouteBuilder route;
  int chunks_per_rank = 1;
  switch (collective) {
    case Collective::allreduce:
      chunks_per_rank = ranks;
      reduce_scatter_phase(route, ranks);
      all_gather_phase(route, ranks, ranks - 1);
      break;
    case Collective::reducescatter:
      chunks_per_rank = ranks;
      reduce_scatter_phase(route, ranks);
      break;
    case Collective::allgather: all_gather_phase(route, ranks, 0); break;
    case Collective::broadcast: forward(route, 0, root, hop(root, -1, ranks), ranks, 0); break;
    case Collective::reduce:
      for (int step = 0; step + 1 < ranks; ++step)
        route.reduce(0, hop(root, step + 1, ranks), hop(root, step + 2, ranks), step);
      break;
    case Collective::gather:
      for (Rank owner = 0; owner < ranks; ++owner) forward(route, owner, owner, root, ranks, 0);
      break;
    case Collective::scatter:
      chunks_per_rank = ranks;
      for (Rank owner = 0; owner < ranks; ++owner) forward(route, owner, root, owner, ranks, 0);
      break;
    case Collective::alltoall:
      chunks_per_rank = ranks;
      all_to_all_phase(route, ranks);
      break;
    case Collective::sendrecv: return std::nullopt;
  }
  return std::move(route).finish("ring", collective, root, topology, chunks_per_rank);
}

}  // namespace sccl::planners
