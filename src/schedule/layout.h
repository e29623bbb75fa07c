// The position of each chunk of a schedule in the caller's buffers.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "schedule/schedule.h"

namespace sccl::schedule {

// In elements. input_offset is meaningful at ranks that contribute the chunk, output_offset at ranks that receive it.
struct ChunkPlace {
  std::size_t input_offset = 0;
  std::size_t output_offset = 0;
  std::size_t elements = 0;
};

// What the places of a schedule's chunks depend on, besides the call.
struct ChunkLayout {
  Collective collective = Collective::allreduce;
  int ranks = 0;
  int chunks = 0;               // of all ranks
  std::vector<double> weights;  // as in Schedule
};
ChunkLayout layout_of(const Schedule& schedule);

// Over all chunks, so equal at all ranks. In elements.
struct Extent {
  std::size_t longest = 0;  // of the chunks
  std::size_t input_end = 0;
  std::size_t output_end = 0;
};

// Fills `places`, one for each of the chunks `which`, for a call of `count` elements. `count` means what it means in
// the C call: elements per rank for allgather, reducescatter, alltoall, gather and scatter, elements in all for the
// other collectives. A block of `count` elements is cut into equal pieces (or by weight) at multiples of 64 bytes, so
// trailing chunks of small calls are empty. A pure function of its arguments: all ranks cut alike. Takes time linear in
// `which`; by weight, O(n log n) for the n chunks of all ranks.
void place_chunks(const ChunkLayout& layout, std::span<const ChunkId> which, std::size_t count,
                  std::size_t element_bytes, std::span<ChunkPlace> places);
// The places of all chunks.
void place_chunks(const Schedule& schedule, std::size_t count, std::size_t element_bytes, std::span<ChunkPlace> places);

// Takes constant time; by weight, as place_chunks().
Extent extent_of(const ChunkLayout& layout, std::size_t count, std::size_t element_bytes);

}  // namespace sccl::schedule
