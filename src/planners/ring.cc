// Ring schedules: every rank sends only to the next rank of a cycle. Chunk c of an unrooted collective starts or ends
// at its owner c mod n.
#include "planners/cycle.h"
#include "planners/planners.h"
#include "planners/route.h"

namespace sccl::planners {
namespace {

// Chunk c goes once round the ring. It starts at owner + 1, so the owner reduces last.
void reduce_scatter_phase(RouteBuilder& route, const Cycle& cycle, int ranks) {
  for (int chunk = 0; chunk < ranks; ++chunk)
    for (int step = 0; step + 1 < ranks; ++step)
      route.reduce(chunk, cycle.hop(chunk, step + 1), cycle.hop(chunk, step + 2), step);
}

void all_gather_phase(RouteBuilder& route, const Cycle& cycle, int ranks, int first_step) {
  for (int chunk = 0; chunk < ranks; ++chunk)
    for (int step = 0; step + 1 < ranks; ++step)
      route.copy(chunk, cycle.hop(chunk, step), cycle.hop(chunk, step + 1), first_step + step);
}

// From `from` along the ring to `to`.
void forward(RouteBuilder& route, const Cycle& cycle, int chunk, Rank from, Rank to) {
  int step = 0;
  for (Rank at = from; at != to; at = cycle.hop(at, 1)) route.copy(chunk, at, cycle.hop(at, 1), step++);
}

void all_to_all_phase(RouteBuilder& route, const Cycle& cycle, int ranks) {
  for (Rank target = 0; target < ranks; ++target)
    for (Rank source = 0; source < ranks; ++source) forward(route, cycle, target * ranks + source, source, target);
}

}  // namespace

std::optional<Schedule> ring(const Topology& topology, Collective collective, Rank root) {
  const int ranks = topology.ranks;
  const std::optional<Cycle> found = Cycle::find(topology);
  if (!found) return std::nullopt;
  const Cycle& cycle = *found;
  RouteBuilder route;
  int chunks_per_rank = 1;
  switch (collective) {
    case Collective::allreduce:
      chunks_per_rank = ranks;
      reduce_scatter_phase(route, cycle, ranks);
      all_gather_phase(route, cycle, ranks, ranks - 1);
      break;
    case Collective::reducescatter:
      chunks_per_rank = ranks;
      reduce_scatter_phase(route, cycle, ranks);
      break;
    case Collective::allgather:
      all_gather_phase(route, cycle, ranks, 0);
      break;
    case Collective::broadcast:
      forward(route, cycle, 0, root, cycle.hop(root, -1));
      break;
    case Collective::reduce:
      for (int step = 0; step + 1 < ranks; ++step)
        route.reduce(0, cycle.hop(root, step + 1), cycle.hop(root, step + 2), step);
      break;
    case Collective::gather:
      for (Rank owner = 0; owner < ranks; ++owner) forward(route, cycle, owner, owner, root);
      break;
    case Collective::scatter:
      chunks_per_rank = ranks;
      for (Rank owner = 0; owner < ranks; ++owner) forward(route, cycle, owner, root, owner);
      break;
    case Collective::alltoall:
      chunks_per_rank = ranks;
      all_to_all_phase(route, cycle, ranks);
      break;
    case Collective::sendrecv:
      return std::nullopt;
  }
  return std::move(route).finish("ring", collective, root, topology, chunks_per_rank);
}

}  // namespace sccl::planners
