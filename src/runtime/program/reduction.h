// What a reduction means for the kernel.
#pragma once

#include "kernels/device/program.h"
#include "runtime/call/requests.h"

namespace sccl::runtime {

// Sets which operation runs, by which factor operands are multiplied and by what results are divided.
void apply_reduction(const Reduction& reduction, DataType type, int ranks, device::Call& call);

}  // namespace sccl::runtime
