// Translates a reduction into the kernel's parameters.
#pragma once

#include "kernels/device/program.h"
#include "runtime/call/requests.h"

namespace sccl::runtime {

// Sets the operation, the factor of the operands and the divisor of the results.
void apply_reduction(const Reduction& reduction, DataType type, int ranks, device::Call& call);

}  // namespace sccl::runtime
