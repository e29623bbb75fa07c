// Recursive doubling and halving over hypercube neighbours rank ^ 2^k.
#include <bit>

#include "planners/planners.h"
#include "planners/route.h"

namespace sccl::planners {
namespace {

// In step k every rank exchanges all its chunks with rank ^ 2^k, so each rank's number of chunks doubles.
void doubling_all_gather(RouteBuilder& route, int ranks, int first_step) {
  for (int span = 1, step = first_step; span < ranks; span *= 2, ++step)
    for (Rank rank = 0; rank < ranks; ++rank)
      for (int chunk = rank / span * span; chunk < rank / span * span + span; ++chunk)
        route.copy(chunk, rank, rank ^ span, step);
}

// The inverse of doubling: in each step every rank sends the half of its remaining chunks that its partner keeps.
void halving_reduce_scatter(RouteBuilder& route, int ranks) {
  for (int span = ranks / 2, step = 0; span >= 1; span /= 2, ++step)
    for (Rank rank = 0; rank < ranks; ++rank) {
      const Rank partner = rank ^ span;
      for (int chunk = partner / span * span; chunk < partner / span * span + span; ++chunk)
        route.reduce(chunk, rank, partner, step);
    }
}

// Ranks beyond the largest power of two first reduce their data into a partner, and last get the result from this
// partner.
void folded_doubling_all_reduce(RouteBuilder& route, int ranks) {
  const int core = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
  int step = 0;
  for (Rank rank = core; rank < ranks; ++rank) route.reduce(0, rank, rank - core, step);
  if (core < ranks) ++step;
  for (int span = 1; span < core; span *= 2, ++step)
    for (Rank rank = 0; rank < core; ++rank) route.reduce(0, rank, rank ^ span, step);
  for (Rank rank = core; rank < ranks; ++rank) route.copy(0, rank - core, rank, step);
}

}  // namespace

std::optional<Schedule> recursive(const Topology& topology, Collective collective, Rank root) {
  const int ranks = topology.ranks;
  const bool power_of_two = std::has_single_bit(static_cast<unsigned>(ranks));
  RouteBuilder route;
  int chunks_per_rank = 1;
  switch (collective) {
    case Collective::allreduce:
      folded_doubling_all_reduce(route, ranks);
      break;
    case Collective::allgather:
      if (!power_of_two) return std::nullopt;
      doubling_all_gather(route, ranks, 0);
      break;
    case Collective::reducescatter:
      if (!power_of_two) return std::nullopt;
      chunks_per_rank = ranks;
      halving_reduce_scatter(route, ranks);
      break;
    default:
      return std::nullopt;
  }
  return std::move(route).finish("recursive", collective, root, topology, chunks_per_rank);
}

}  // namespace sccl::planners
