// The loop of plain copies. The C library's memcpy may choose the processor's string instructions, which slow down from
// tens of GB/s to two or three when source and destination lie unluckily within their pages.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/reduce/reduce_bytes.cc"
// Must come first: it determines how often the rest is compiled.
// clang-format off
#include "kernels/host/vectors/each_vector_target.h"
#include "kernels/host/reduce/reduce_body.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace sccl::kernels::HWY_NAMESPACE {

void copy_bytes(const ReduceCopy& work, std::span<Rider> riders) {
  if (work.destination_count == 1) return reduce_loop<Copying, OneToOne>(work, riders);
  if (work.destination_count == 2) return reduce_loop<Copying, OneToPair>(work, riders);
  reduce_loop<Copying, AnyToAny>(work, riders);
}

}  // namespace sccl::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sccl::kernels {

Loop copy_loop(InstructionSet set) {
  static constexpr Loop kSets[kInstructionSetCount] = SCCL_FOR_EACH_INSTRUCTION_SET(copy_bytes);
  return kSets[static_cast<int>(set)];
}

}  // namespace sccl::kernels
#endif
