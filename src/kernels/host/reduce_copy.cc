// From a request to the loop that serves it: plain copies, scaled copies, reductions, integer averages.
#include "kernels/host/reduce_copy.h"

#include <cstring>

#include "base/error.h"
#include "base/types.h"
#include "kernels/host/reduce_divide.h"
#include "kernels/host/reduce_float_environment.h"
#include "kernels/host/reduce_loops.h"

namespace sccl::kernels {
namespace {

void check(const ReduceCopy& work) {
  if (static_cast<unsigned>(work.type) >= kDataTypeCount || static_cast<unsigned>(work.kernel) >= kReduceKernelCount ||
      work.operand_count < 1 || work.destination_count < 0) {
    fail(ErrorCode::internal_error,
         "a reduction of type {}, kernel {}, {} operands and {} destinations was asked for (reduce_copy): report this",
         static_cast<unsigned>(work.type), static_cast<unsigned>(work.kernel), work.operand_count,
         work.destination_count);
  }
}

void copy(const ReduceCopy& work) {
  const void* from = work.operands[0].data;
  const std::size_t bytes = work.elements * size_bytes(work.type);
  if (work.destination_count == 1 && work.destinations[0] == from) return;
  if (bytes >= kShortCopyBytes) {
    ReduceCopy whole = work;
    whole.elements = bytes;
    return copy_loop(current_instruction_set())(whole);
  }
  for (int i = 0; i < work.destination_count; ++i) {
    if (work.destinations[i] != from) std::memcpy(work.destinations[i], from, bytes);
  }
}

const Loops& loops(DataType type) {
  const InstructionSet set = current_instruction_set();
  switch (type) {
    case DataType::float32:
    case DataType::float64:
      return wide_float_loops(set, type);
    case DataType::float16:
    case DataType::bfloat16:
      return half_float_loops(set, type);
    case DataType::float8e4m3:
    case DataType::float8e5m2:
      return float8_loops(set, type);
    default:
      return integer_loops(set, type);
  }
}

Loop loop_for(const ReduceCopy& work) {
  const Loops& all = loops(work.type);
  if (work.operand_count == 1) return all.scale;
  const KernelLoops& kernel = all.kernels[static_cast<int>(work.kernel)];
  if (work.scaled) return kernel.scaled;
  if (work.operand_count != 2 || work.destination_count > 2) return kernel.plain;
  return work.destination_count == 1 ? kernel.pair : kernel.pair_to_pair;
}

void reduce_undivided(const ReduceCopy& work) {
  if (work.operand_count == 1 && !work.scaled) return copy(work);
  const FloatEnvironment environment;
  loop_for(work)(work);
}

// Operands are no longer needed once the first destination holds the sum, even where they are other destinations.
void reduce_and_divide(const ReduceCopy& work) {
  ReduceCopy sum = work;
  sum.destination_count = 1;
  sum.streamed = 0;  // it is read again below
  reduce_undivided(sum);
  divide(work.type, work.destinations[0], work.elements, work.divisor);
  const Operand average{work.destinations[0], 0};
  ReduceCopy rest = work;
  rest.operands = &average;
  rest.operand_count = 1;
  rest.scaled = false;
  rest.destinations = work.destinations + 1;
  rest.destination_count = work.destination_count - 1;
  rest.streamed = work.streamed >> 1;
  copy(rest);
}

}  // namespace

void reduce_copy(const ReduceCopy& work) {
  check(work);
  if (work.elements == 0 || work.destination_count == 0) return;
  const bool divided = work.divisor > 1 && !info(work.type).floating;
  if (divided) return reduce_and_divide(work);
  reduce_undivided(work);
}

}  // namespace sccl::kernels
