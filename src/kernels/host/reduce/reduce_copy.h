// The data mover of the host target: reduces any number of sources element by element into any number of destinations,
// in one pass, vectorised for the processor found at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/scalar_types.h"

namespace sccl::kernels {

struct Operand {
  const void* data;
  // Factor of every element: a value of the element type in the low bytes. Used only when the call is `scaled`.
  std::uint64_t scale_bits;
};

struct ReduceCopy {
  DataType type;
  ReduceKernel kernel;
  const Operand* operands;  // reduced in this order: ((o0 + o1) + o2) + ...
  int operand_count;        // >= 1
  bool scaled;              // multiply each operand's elements by its factor, rounded to the type, first
  // > 1: integer types divide the result by it (truncating): the last step of an integer average. Other types ignore
  // it.
  std::uint32_t divisor;
  void* const* destinations;
  int destination_count;  // >= 0
  std::size_t elements;
  // Bit i: the caller will read destination i only after the caches have evicted it, so stores may bypass the caches.
  // For the first 32 destinations. A store fence follows the last of these stores.
  std::uint32_t streamed = 0;
  // Where it is not 0, a sum or product of floats keeps the payload of the first NaN. Bit i, i >= 1:
  // operand i goes first: o_i + (o0 + ...). For the first 32 operands.
  std::uint32_t order = 0;
};

// Tests a bit of ReduceCopy::streamed.
inline bool is_streamed(std::uint32_t streamed, int destination) {
  return destination < 32 && (streamed >> destination & 1) != 0;
}

inline constexpr std::uint32_t kInOrder = 1;  // of ReduceCopy::order: as they are given

inline constexpr std::size_t kStreamAlignment = 64;

// Below this size the C library copies faster, and never with string instructions.
inline constexpr std::size_t kShortCopyBytes = 1024;

// Operands and destinations need only the alignment of their element. A destination may be exactly an operand (in
// place), but may not overlap one otherwise. Copies (one operand, unscaled, no divisor) work for every type.
//
// Semantics. Integers wrap. Floating min and max return the operand that is not NaN, and order -0 below +0; results
// depend on the operands' order only for NaN payloads, which are any unless `order` says so. float16, bfloat16 and the
// fp8 types accumulate in float32 over the operands of one call and round once to nearest even; fp8 results beyond the
// largest finite value saturate (OCP E4M3FN and E5M2), NaN stays NaN. A scale is applied as one multiplication rounded
// to the element type.
void reduce_copy(const ReduceCopy& work);

// Whether several operands in one call give the same bits as one call for each of them.
bool rounds_at_each_operand(DataType type, ReduceKernel kernel);

// Several works whose memory does not overlap. Copies are interleaved line by line into a reduction or another copy:
// while one of them waits for memory or for another core's cache, the other continues.
void reduce_copy_together(std::span<const ReduceCopy> works);

// The element type's bits of the factor 1/divisor (rounded to the type), of 1, or of an integer.
std::uint64_t reciprocal_bits(DataType type, int divisor);
std::uint64_t one_bits(DataType type);

}  // namespace sccl::kernels
