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

Position position(const ChunkLayout& layout, ChunkId chunk) {
  const int ranks = layout.ranks;
  const int owner = chunk % ranks;
  switch (layout.collective) {
    case Collective::allgather:
    case Collective::gather:
      return {0, owner, chunk / ranks, layout.chunks / ranks};
    case Collective::reducescatter:
    case Collective::scatter:
      return {owner, 0, chunk / ranks, layout.chunks / ranks};
    case Collective::alltoall:
      return {chunk / ranks % ranks, owner, chunk / (ranks * ranks), layout.chunks / (ranks * ranks)};
    case Collective::allreduce:
      // The chunks of one owner are adjacent, as in the ReduceScatter and the AllGather that make up the AllReduce.
      if (layout.chunks % ranks == 0) return {0, 0, owner * (layout.chunks / ranks) + chunk / ranks, layout.chunks};
      break;
    default:
      break;
  }
  return {0, 0, chunk, layout.chunks};
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
void place_block(const ChunkLayout& layout, std::span<const ChunkId> chunks, std::size_t count, std::size_t unit,
                 std::span<ChunkPlace> places) {
  const auto weight = [&](ChunkId chunk) { return layout.weights[static_cast<std::size_t>(chunk)]; };
  double total = 0;
  for (const ChunkId chunk : chunks) total += weight(chunk);
  double before = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    before += weight(chunks[i]);
    const std::size_t end = i + 1 == chunks.size() ? count : weighted_boundary(count, before, total, unit);
    const Position at = position(layout, chunks[i]);
    places[static_cast<std::size_t>(chunks[i])] = {static_cast<std::size_t>(at.input_block) * count + begin,
                                                   static_cast<std::size_t>(at.output_block) * count + begin,
                                                   end - begin};
    begin = end;
  }
}

// O(chunks log chunks), because a call on a device places its chunks anew every time.
std::vector<ChunkPlace> place_weighted(const ChunkLayout& layout, std::size_t count, std::size_t unit) {
  std::vector<ChunkPlace> places(static_cast<std::size_t>(layout.chunks));
  std::vector<ChunkId> chunks(static_cast<std::size_t>(layout.chunks));
  std::iota(chunks.begin(), chunks.end(), 0);
  const auto block = [&](ChunkId chunk) {
    const Position at = position(layout, chunk);
    return std::pair(at.input_block, at.output_block);
  };
  std::sort(chunks.begin(), chunks.end(), [&](ChunkId a, ChunkId b) {
    return std::tuple(block(a), position(layout, a).piece) < std::tuple(block(b), position(layout, b).piece);
  });
  for (auto begin = chunks.cbegin(); begin != chunks.cend();) {
    const auto end = std::find_if(begin, chunks.cend(), [&](ChunkId chunk) { return block(chunk) != block(*begin); });
    place_block(layout, std::span(begin, end), count, unit, places);
    begin = end;
  }
  return places;
}

std::size_t unit_of(std::size_t element_bytes) {
  constexpr std::size_t kAlignmentBytes = 64;
  return std::max<std::size_t>(1, kAlignmentBytes / element_bytes);
}

}  // namespace

ChunkLayout layout_of(const Schedule& schedule) {
  return {schedule.collective, schedule.ranks, schedule.chunks, schedule.weights};
}

void place_chunks(const ChunkLayout& layout, std::span<const ChunkId> which, std::size_t count,
                  std::size_t element_bytes, std::span<ChunkPlace> places) {
  const std::size_t unit = unit_of(element_bytes);
  if (!layout.weights.empty()) {
    const std::vector<ChunkPlace> all = place_weighted(layout, count, unit);
    for (std::size_t i = 0; i < which.size(); ++i) places[i] = all[static_cast<std::size_t>(which[i])];
    return;
  }
  for (std::size_t i = 0; i < which.size(); ++i) {
    const Position at = position(layout, which[i]);
    const std::size_t begin = even_boundary(count, at.piece, at.pieces, unit);
    const std::size_t end = even_boundary(count, at.piece + 1, at.pieces, unit);
    places[i] = {static_cast<std::size_t>(at.input_block) * count + begin,
                 static_cast<std::size_t>(at.output_block) * count + begin, end - begin};
  }
}

void place_chunks(const Schedule& schedule, std::size_t count, std::size_t element_bytes,
                  std::span<ChunkPlace> places) {
  std::vector<ChunkId> all(static_cast<std::size_t>(schedule.chunks));
  std::iota(all.begin(), all.end(), 0);
  place_chunks(layout_of(schedule), all, count, element_bytes, places);
}

Extent extent_of(const ChunkLayout& layout, std::size_t count, std::size_t element_bytes) {
  Extent extent;
  if (layout.chunks == 0) return extent;
  const Position last = position(layout, layout.chunks - 1);
  extent.input_end = static_cast<std::size_t>(last.input_block + 1) * count;
  extent.output_end = static_cast<std::size_t>(last.output_block + 1) * count;
  const std::size_t unit = unit_of(element_bytes);
  if (layout.weights.empty()) {
    extent.longest = even_boundary(count, 1, last.pieces, unit);
    return extent;
  }
  for (const ChunkPlace& place : place_weighted(layout, count, unit))
    extent.longest = std::max(extent.longest, place.elements);
  return extent;
}

}  // namespace sccl::schedule
