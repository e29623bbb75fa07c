#include "runtime/program/reduction.h"

#include <cstring>

#include "kernels/host/reduce/reduce_copy.h"

namespace sccl::runtime {
namespace {

bool is_integer(DataType type) { return !info(type).floating; }

ReduceKernel kernel_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::prod:
      return ReduceKernel::prod;
    case ReduceOp::max:
      return ReduceKernel::max;
    case ReduceOp::min:
      return ReduceKernel::min;
    default:
      return ReduceKernel::sum;
  }
}

device::u64 scalar_bits(const Reduction& reduction, DataType type) {
  device::u64 bits = reduction.scalar_bits;
  if (reduction.scalar_pointer != nullptr) {
    bits = 0;
    std::memcpy(&bits, reduction.scalar_pointer, size_bytes(type));
  }
  return bits;
}

}  // namespace

void apply_reduction(const Reduction& reduction, DataType type, int ranks, device::Call& call) {
  call.kernel = kernel_of(reduction.op);
  call.scaled = false;
  call.divisor = 1;
  if (reduction.op == ReduceOp::premul_sum) {
    call.scaled = true;
    call.scale_bits = scalar_bits(reduction, type);
  } else if (reduction.op == ReduceOp::avg && is_integer(type)) {
    call.divisor = static_cast<device::u32>(ranks);
  } else if (reduction.op == ReduceOp::avg) {
    call.scaled = true;
    call.scale_bits = kernels::reciprocal_bits(type, ranks);
  }
}

}  // namespace sccl::runtime
