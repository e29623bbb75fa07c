// The loops compiled for one element type and one instruction set, as the dispatcher sees them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/host/reduce/reduce_copy.h"
#include "kernels/host/vectors/instruction_set.h"

namespace sccl::kernels {

// A copy that is interleaved into a loop, with as many bytes per step as the loop writes to a destination: while one of
// them waits for memory, the other continues.
struct Rider {
  const std::uint8_t* from;
  std::uint8_t* to;  // a multiple of kStreamAlignment where it is streamed
  std::size_t bytes;
  bool streamed;
};

// Interleaves one rider (two if the work is a copy) into the loop, in whole steps, until the work or the rider ends.
// Afterwards the riders describe what remains to be copied. No fence follows streamed stores.
using Loop = void (*)(const ReduceCopy& work, std::span<Rider> riders);

// The loops ignore the divisor.
struct KernelLoops {
  Loop pair;          // two unscaled operands to one destination
  Loop pair_to_pair;  // two unscaled operands to two destinations
  Loop plain;         // unscaled operands to any number of destinations
  Loop scaled;        // scaled operands to any number of destinations
};
struct Loops {
  Loop scale;                               // one scaled operand to any number of destinations
  KernelLoops kernels[kReduceKernelCount];  // by ReduceKernel
};

// A family must not be called for a type of another family.
using LoopsOf = const Loops& (*)(DataType type);
const Loops& integer_loops(InstructionSet set, DataType type);     // the six integer types
const Loops& wide_float_loops(InstructionSet set, DataType type);  // float32, float64
const Loops& half_float_loops(InstructionSet set, DataType type);  // float16, bfloat16
const Loops& float8_loops(InstructionSet set, DataType type);      // float8e4m3, float8e5m2

// One unscaled operand to any number of destinations: `elements` counts bytes.
Loop copy_loop(InstructionSet set);

}  // namespace sccl::kernels
