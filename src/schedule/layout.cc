#include "schedule/layout.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

namespace sccl::schedule {
namespace {

// The block (of `count` elements) that holds a chunk, at the sender and at the receiver, and the chunk's position in
// the block.
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
      // The chunks of one owner are adjacent, as in the ReduceScatter and the AllGather that make up the AllReduce.
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

// Places the chunks of a block one after another. The weights before each piece are one running sum, so the end of a
// piece is exactly the beginning of the next piece.
void place_block(const Schedule& schedule, std::span<const ChunkId> chunks, std::size_t count, std::size_t unit,
                 std::span<ChunkPlace> places) {
  const auto weight = [&](ChunkId chunk) { return schedule.weights[static_cast<std::size_t>(chunk)]; };
  double total = 0;
  for (const ChunkId chunk : chunks) total += weight(chunk);
  double before = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    before += weight(chunks[i]);
    const std::size_t end = i + 1 == chunks.size() ? count : weighted_boundary(count, before, total, unit);
    const Position at = position(schedule, chunks[i]);
    places[static_cast<std::size_t>(chunks[i])] = {static_cast<std::size_t>(at.input_block) * count + begin,
                                                   static_cast<std::size_t>(at.output_block) * count + begin,
                                                   end - begin};
    begin = end;
  }
}

// O(chunks log chunks), because a call on a device places its chunks anew every time.
void place_weighted(const Schedule& schedule, std::size_t count, std::size_t unit, std::span<ChunkPlace> places) {
  std::vector<ChunkId> chunks(static_cast<std::size_t>(schedule.chunks));
  std::iota(chunks.begin(), chunks.end(), 0);
  const auto block = [&](ChunkId chunk) {
    const Position at = position(schedule, chunk);
    return std::pair(at.input_block, at.output_block);
  };
  std::sort(chunks.begin(), chunks.end(), [&](ChunkId a, ChunkId b) {
    return std::tuple(block(a), position(schedule, a).piece) < std::tuple(block(b), position(schedule, b).piece);
  });
  for (auto begin = chunks.cbegin(); begin != chunks.cend();) {
    const auto end = std::find_if(begin, chunks.cend(), [&](ChunkId chunk) { return block(chunk) != block(*begin); });
    place_block(schedule, std::span(begin, end), count, unit, places);
    begin = end;
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
