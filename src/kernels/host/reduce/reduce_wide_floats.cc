// The loops of float32 and float64.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/reduce/reduce_wide_floats.cc"
// Must come first: it determines how often the rest is compiled.
// clang-format off
#include "kernels/host/vectors/each_vector_target.h"
#include "kernels/host/reduce/reduce_body.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace sccl::kernels::HWY_NAMESPACE {

const Loops& wide_float_loops_of(DataType type) {
  switch (type) {
    case DataType::float32:
      return kLoops<float>;
    default:
      return kLoops<double>;
  }
}

}  // namespace sccl::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sccl::kernels {

const Loops& wide_float_loops(InstructionSet set, DataType type) {
  static constexpr LoopsOf kSets[kInstructionSetCount] = SCCL_FOR_EACH_INSTRUCTION_SET(wide_float_loops_of);
  return kSets[static_cast<int>(set)](type);
}

}  // namespace sccl::kernels
#endif
