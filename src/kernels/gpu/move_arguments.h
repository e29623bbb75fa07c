// What the host passes to a kernel that only moves and reduces. Plain data for both sides.
#pragma once

#include "kernels/gpu/arguments.h"

namespace sccl::device::gpu {

inline constexpr u32 kMostPlaces = 96;  // of sources, and of sinks: the arguments fit into a kernel's parameters

struct MoveSource {
  const u8* data;
  u64 original;  // not 0: from the caller's own input, which is multiplied by the scale
};

struct MoveArguments {
  u64 elements;
  u32 element_bytes;
  u32 blocks;  // of this launch
  DataType type;
  ReduceKernel kernel;
  bool scaled;
  u32 divisor;
  u64 scale_bits;
  const u64* scale_pointer;  // read when the kernel runs; may be null
  u32 source_count;
  u32 sink_count;
  MoveSource sources[kMostPlaces];
  u8* sinks[kMostPlaces];
};
static_assert(sizeof(MoveArguments) <= 4096);

}  // namespace sccl::device::gpu
