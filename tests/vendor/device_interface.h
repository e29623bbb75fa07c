// What a program needs that makes device communicators.
#pragma once

#include "nccl_shim/nccl_device.h"

// Not in our header, as no function of the device needs it there.
extern "C" ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int rank, void** out);

namespace vendor_test {

// As NCCL's own header initialises it, with which programs that have kernels are compiled.
inline const ncclDevCommRequirements kRequirements = [] {
  ncclDevCommRequirements requirements = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
  requirements.magic = NCCL_API_MAGIC;
  return requirements;
}();

}  // namespace vendor_test
