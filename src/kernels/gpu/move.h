// A kernel that never waits: it reduces its sources into its sinks and ends. Where kernels must not spin, streams order
// the calls of this kernel by flags (runtime/gpu/stream/stream_calls.h).
#pragma once

#include "kernels/gpu/move_arguments.h"
#include "kernels/gpu/reduce_copy.h"
#include "kernels/gpu/target.h"

namespace sccl::device::gpu {

struct MoveMemory {
  Source sources[kMostPlaces];
  u8* sinks[kMostPlaces];
};

inline u64 scale_of(const MoveArguments& arguments) {
  if (arguments.scale_pointer == nullptr) return arguments.scale_bits;
  u64 bits = 0;
  SCCL_ROLLED for (u32 i = 0; i < arguments.element_bytes; ++i) bits |=
      static_cast<u64>(reinterpret_cast<const u8*>(arguments.scale_pointer)[i]) << (8 * i);
  return bits;
}

// Blocks divide the elements at boundaries that keep vectors whole.
template <class Mover>
inline void run_move(const MoveArguments& arguments, MoveMemory& memory) {
  const Chunk all{0, 0, arguments.elements, 0, 0};
  const Chunk part = part_of(all, arguments.element_bytes, arguments.blocks, block_index());
  const u64 offset = part.input_offset * arguments.element_bytes;
  SCCL_ROLLED for (u32 i = thread_index(); i < arguments.source_count; i += thread_count()) {
    const MoveSource& source = arguments.sources[i];
    memory.sources[i] = {source.data + offset, source.original ? scale_of(arguments) : one_of(arguments.type)};
  }
  SCCL_ROLLED for (u32 i = thread_index(); i < arguments.sink_count; i += thread_count()) memory.sinks[i] =
      arguments.sinks[i] + offset;
  block_sync();
  move_block<Mover>(memory.sources, arguments.source_count, memory.sinks, arguments.sink_count, part.elements,
                    arguments.divisor, {arguments.type, arguments.kernel, arguments.element_bytes}, arguments.scaled);
}

}  // namespace sccl::device::gpu

#define SCCL_GPU_MOVE_KERNEL(name, ...)                                          \
  extern "C" SCCL_KERNEL void SCCL_MOST_THREADS(sccl::device::gpu::kMostThreads) \
      name(SCCL_GPU_PARAMETER sccl::device::gpu::MoveArguments a) {              \
    SCCL_SHARED sccl::device::gpu::MoveMemory memory;                            \
    sccl::device::gpu::run_move<__VA_ARGS__>(a, memory);                         \
  }
