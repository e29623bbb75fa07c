// The loops of float16 and bfloat16.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/reduce/reduce_half_floats.cc"
// Must come first: it determines how often the rest is compiled.
// clang-format off
#include "kernels/host/vectors/each_vector_target.h"
#include "kernels/host/reduce/reduce_body.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace sccl::kernels::HWY_NAMESPACE {

const Loops& half_float_loops_of(DataType type) {
  switch (type) {
    case DataType::float16:
      return kLoops<Float16>;
    default:
      return kLoops<BFloat16>;
  }
}

}  // namespace sccl::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sccl::kernels {

const Loops& half_float_loops(InstructionSet set, DataType type) {
  static constexpr LoopsOf kSets[kInstructionSetCount] = SCCL_FOR_EACH_INSTRUCTION_SET(half_float_loops_of);
  return kSets[static_cast<int>(set)](type);
}

}  // namespace sccl::kernels
#endif
