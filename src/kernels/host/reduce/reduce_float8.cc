// The loops of the two fp8 types.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/reduce/reduce_float8.cc"
// Must come first: it determines how often the rest is compiled.
// clang-format off
#include "kernels/host/vectors/each_vector_target.h"
#include "kernels/host/reduce/reduce_body.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace sccl::kernels::HWY_NAMESPACE {

const Loops& float8_loops_of(DataType type) {
  switch (type) {
    case DataType::float8e4m3:
      return kLoops<Float8E4M3>;
    default:
      return kLoops<Float8E5M2>;
  }
}

}  // namespace sccl::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sccl::kernels {

const Loops& float8_loops(InstructionSet set, DataType type) {
  static constexpr LoopsOf kSets[kInstructionSetCount] = SCCL_FOR_EACH_INSTRUCTION_SET(float8_loops_of);
  return kSets[static_cast<int>(set)](type);
}

}  // namespace sccl::kernels
#endif
