// The loops compiled for one element type and one instruction set, as the dispatcher sees them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/host/reduce_copy.h"
#include "kernels/host/reduce_instruction_set.h"

namespace sccl::kernels {

// A copy that goes along with a loop, as many bytes at a time as the loop itself writes to a destination: while one
// waits for memory, the other goes on.
struct Rider {
  const std::uint8_t* from;
  std::uint8_t* to;  // at a multiple of kStreamAlignment where it is streamed
  std::size_t bytes;
  bool streamed;
};

// Takes riders along, one or (copies) two, as far as the work goes, in whole steps, and leaves in them what remains to
// be copied. What is streamed is not fenced.
using Loop = void (*)(const ReduceCopy& work, std::span<Rider> riders);

// The loops ignore the divisor.
struct KernelLoops {
  Loop pair;          // two unscaled operands to one destination
  Loop pair_to_pair;  // to two
  Loop plain;         // unscaled operands to any number of destinations
  Loop scaled;        // scaled operands to any number of destinations
};
struct Loops {
  Loop scale;                               // one scaled operand to any number of destinations
  KernelLoops kernels[kReduceKernelCount];  // by ReduceKernel
};

// The family of a type that belongs to another is not defined.
using LoopsOf = const Loops& (*)(DataType type);
const Loops& integer_loops(InstructionSet set, DataType type);     // the six integer types
const Loops& wide_float_loops(InstructionSet set, DataType type);  // float32, float64
const Loops& half_float_loops(InstructionSet set, DataType type);  // float16, bfloat16
const Loops& float8_loops(InstructionSet set, DataType type);      // float8e4m3, float8e5m2

// One unscaled operand to any number of destinations: `elements` counts bytes.
Loop copy_loop(InstructionSet set);

}  // namespace sccl::kernels
