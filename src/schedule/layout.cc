#include "schedule/layout.h"

#include <algorithm>
#include <cmath>

namespace sccl::schedule {
namespace {

// A chunk's block (the run of `count` elements it lies in, at the sender and at the receiver) and its position there.
struct Position {
  int input_block;
  int output_block;
  int piece;
  int pieces;
};

Position position(const Schedule& schedule, ChunkId chunk) {
  const int ranks = schedule.ranks;
  const int owner = chunk % ranks;
  switch (schedule.collective) {
    case Collective::allgather:
    case Collective::gather:
      return {0, owner, chunk / ranks, schedule.chunks / ranks};
    case Collective::reducescatter:
    case Collective::scatter:
      return {owner, 0, chunk / ranks, schedule.chunks / ranks};
    case Collective::alltoall:
      return {chunk / ranks % ranks, owner, chunk / (ranks * ranks), schedule.chunks / (ranks * ranks)};
    case Collective::allreduce:
      // The chunks of one owner lie together, as in the ReduceScatter and AllGather it is made of.
      if (schedule.chunks % ranks == 0)
        return {0, 0, owner * (schedule.chunks / ranks) + chunk / ranks, schedule.chunks};
      break;
    default:
      break;
  }
  return {0, 0, chunk, schedule.chunks};
}

// Start of piece `piece` of `pieces` in a block of `count`, rounded up to `unit`; `piece == pieces` gives the end.
std::size_t even_boundary(std::size_t count, int piece, int pieces, std::size_t unit) {
  const std::size_t whole_units = (count + unit - 1) / unit;
  const std::size_t units = (whole_units + static_cast<std::size_t>(pieces) - 1) / static_cast<std::size_t>(pieces);
  return std::min(count, units * unit * static_cast<std::size_t>(piece));
}

std::size_t weighted_boundary(std::size_t count, double before, double total, std::size_t unit) {
  if (before >= total) return count;
  const auto exact = static_cast<std::size_t>(std::llround(static_cast<double>(count) * (before / total)));
  return std::min(count, (exact + unit / 2) / unit * unit);
}

// The weight of a block's pieces before `piece`. Summed in one order wherever it is asked for, so that the end of a
// piece is bit for bit the beginning of the next.
double weight_before(const Schedule& schedule, const Position& block, int piece) {
  double sum = 0;
  for (ChunkId other = 0; other < schedule.chunks; ++other) {
    const Position there = position(schedule, other);
    if (there.input_block == block.input_block && there.output_block == block.output_block && there.piece < piece)
      sum += schedule.weights[static_cast<std::size_t>(other)];
  }
  return sum;
}

void place_weighted(const Schedule& schedule, std::size_t count, std::size_t unit, std::span<ChunkPlace> places) {
  for (ChunkId chunk = 0; chunk < schedule.chunks; ++chunk) {
    const Position at = position(schedule, chunk);
    const double total = weight_before(schedule, at, at.pieces);
    const auto boundary = [&](int piece) {
      return piece >= at.pieces ? count : weighted_boundary(count, weight_before(schedule, at, piece), total, unit);
    };
    const std::size_t begin = boundary(at.piece);
    places[static_cast<std::size_t>(chunk)] = {static_cast<std::size_t>(at.input_block) * count + begin,
                                               static_cast<std::size_t>(at.output_block) * count + begin,
                                               boundary(at.piece + 1) - begin};
  }
}

}  // namespace

void place_chunks(const Schedule& schedule, std::size_t count, std::size_t element_bytes,
                  std::span<ChunkPlace> places) {
  constexpr std::size_t kAlignmentBytes = 64;
  const std::size_t unit = std::max<std::size_t>(1, kAlignmentBytes / element_bytes);
  if (!schedule.weights.empty()) {
    place_weighted(schedule, count, unit, places);
    return;
  }
  for (ChunkId chunk = 0; chunk < schedule.chunks; ++chunk) {
    const Position at = position(schedule, chunk);
    const std::size_t begin = even_boundary(count, at.piece, at.pieces, unit);
    const std::size_t end = even_boundary(count, at.piece + 1, at.pieces, unit);
    places[static_cast<std::size_t>(chunk)] = {static_cast<std::size_t>(at.input_block) * count + begin,
                                               static_cast<std::size_t>(at.output_block) * count + begin, end - begin};
  }
}

}  // namespace sccl::schedule
