// One-hop schedules: a chunk travels directly between its owner and every other rank.
#include "planners/planners.h"
#include "planners/route.h"

namespace sccl::planners {
namespace {

void reduce_to_owner(RouteBuilder& route, int chunk, Rank owner, int ranks) {
  for (Rank rank = 0; rank < ranks; ++rank)
    if (rank != owner) route.reduce(chunk, rank, owner, 0);
}

void copy_from_owner(RouteBuilder& route, int chunk, Rank owner, int ranks, int step) {
  for (Rank rank = 0; rank < ranks; ++rank)
    if (rank != owner) route.copy(chunk, owner, rank, step);
}

}  // namespace

std::optional<Schedule> one_hop(const Topology& topology, Collective collective, Rank root) {
  const int ranks = topology.ranks;
  RouteBuilder route;
  int chunks_per_rank = 1;
  switch (collective) {
    case Collective::allreduce:
    case Collective::reducescatter:
      chunks_per_rank = ranks;
      for (Rank owner = 0; owner < ranks; ++owner) {
        reduce_to_owner(route, owner, owner, ranks);
        if (collective == Collective::allreduce) copy_from_owner(route, owner, owner, ranks, 1);
      }
      break;
    case Collective::allgather:
      for (Rank owner = 0; owner < ranks; ++owner) copy_from_owner(route, owner, owner, ranks, 0);
      break;
    case Collective::broadcast:
      copy_from_owner(route, 0, root, ranks, 0);
      break;
    case Collective::reduce:
      // Every rank reduces its share of the buffer and hands it to the root, so that no rank does all the work.
      chunks_per_rank = ranks;
      for (Rank owner = 0; owner < ranks; ++owner) {
        reduce_to_owner(route, owner, owner, ranks);
        if (owner != root) route.copy(owner, owner, root, 1);
      }
      break;
    case Collective::gather:
      for (Rank owner = 0; owner < ranks; ++owner)
        if (owner != root) route.copy(owner, owner, root, 0);
      break;
    case Collective::scatter:
      chunks_per_rank = ranks;
      for (Rank owner = 0; owner < ranks; ++owner)
        if (owner != root) route.copy(owner, root, owner, 0);
      break;
    case Collective::alltoall:
      chunks_per_rank = ranks;
      for (Rank target = 0; target < ranks; ++target)
        for (Rank source = 0; source < ranks; ++source)
          if (source != target) route.copy(target * ranks + source, source, target, 0);
      break;
    case Collective::sendrecv:
      return std::nullopt;
  }
  return std::move(route).finish("one-hop", collective, root, topology, chunks_per_rank);
}

}  // namespace sccl::planners
