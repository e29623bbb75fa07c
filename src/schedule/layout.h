// The position of each chunk of a schedule in the caller's buffers.
#pragma once

#include <cstddef>
#include <span>

#include "schedule/schedule.h"

namespace sccl::schedule {

// In elements. input_offset is meaningful at ranks that contribute the chunk, output_offset at ranks that receive it.
struct ChunkPlace {
  std::size_t input_offset = 0;
  std::size_t output_offset = 0;
  std::size_t elements = 0;
};

// Fills `places` (one per chunk) for a call of `count` elements. `count` means what it means in the C call: elements
// per rank for allgather, reducescatter, alltoall, gather and scatter, elements in all for the other collectives. A
// block of `count` elements is cut into equal pieces (or by weight) at multiples of 64 bytes, so trailing chunks of
// small calls are empty. A pure function of its arguments: all ranks cut alike.
void place_chunks(const Schedule& schedule, std::size_t count, std::size_t element_bytes, std::span<ChunkPlace> places);

}  // namespace sccl::schedule
