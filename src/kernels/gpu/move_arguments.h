// What the host hands to a kernel that only moves and reduces. Plain data for both sides.
#pragma once

#include "kernels/gpu/arguments.h"

namespace sccl::device::gpu {

inline constexpr u32 kMostPlaces = 96;  // sources, and sinks: with them the arguments stay within a kernel's parameters

struct MoveSource {
  const u8* data;
  u64 original;  // of the caller's own input: multiplied by the scale
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
