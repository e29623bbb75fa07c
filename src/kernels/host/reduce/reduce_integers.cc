// The loops of the integer types.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/reduce/reduce_integers.cc"
// Must come first: it determines how often the rest is compiled.
// clang-format off
#include "kernels/host/vectors/each_vector_target.h"
#include "kernels/host/reduce/reduce_body.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace sccl::kernels::HWY_NAMESPACE {

const Loops& integer_loops_of(DataType type) {
  switch (type) {
    case DataType::int8:
      return kLoops<std::int8_t>;
    case DataType::uint8:
      return kLoops<std::uint8_t>;
    case DataType::int32:
      return kLoops<std::int32_t>;
    case DataType::uint32:
      return kLoops<std::uint32_t>;
    case DataType::int64:
      return kLoops<std::int64_t>;
    default:
      return kLoops<std::uint64_t>;
  }
}

}  // namespace sccl::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sccl::kernels {

const Loops& integer_loops(InstructionSet set, DataType type) {
  static constexpr LoopsOf kSets[kInstructionSetCount] = SCCL_FOR_EACH_INSTRUCTION_SET(integer_loops_of);
  return kSets[static_cast<int>(set)](type);
}

}  // namespace sccl::kernels
#endif
