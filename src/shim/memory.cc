// Buffers and their registration, and the memory that a communicator holds.
#include "platform/gpu/user_memory.h"
#include "runtime/communicator/device_interface.h"
#include "runtime/communicator/suspension.h"
#include "shim/boundary.h"
#include "shim/handles.h"

using namespace sccl;
using namespace sccl::shim;

extern "C" {

ncclResult_t pncclMemAlloc(void** ptr, size_t size) {
  return guarded("ncclMemAlloc", [&] {
    if (ptr == nullptr) fail(ErrorCode::invalid_argument, "ptr is NULL: pass a place for the result");
    *ptr = nullptr;
    *ptr = runtime::allocate_user_memory(size, NCCL_WIN_REQUIRED_ALIGNMENT);
  });
}

ncclResult_t pncclMemFree(void* ptr) {
  return guarded("ncclMemFree", [&] { runtime::free_user_memory(ptr); });
}

ncclResult_t pncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle) {
  return guarded("ncclCommRegister", [&] {
    const auto communicator = communicator_of(comm);
    communicator->lifecycle().check_usable();
    if (handle == nullptr) fail(ErrorCode::invalid_argument, "handle is NULL: pass a place for the result");
    if (buff == nullptr && size > 0)
      fail(ErrorCode::invalid_argument, "buff is NULL where {} bytes are to be registered: pass a buffer", size);
    *handle = runtime::register_buffer(*communicator, buff, size);
  });
}

// Programs deregister in any state of the communicator, also while another thread aborts it.
ncclResult_t pncclCommDeregister(const ncclComm_t comm, void* handle) {
  return guarded("ncclCommDeregister", [&] {
    if (handle != nullptr) runtime::deregister_buffer(*communicator_of(comm), handle);
  });
}

// Memory that NCCL allocates on the device is shared host memory here.
ncclResult_t pncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value) {
  return guarded("ncclCommMemStats", [&] {
    const auto communicator = communicator_of(comm);
    if (value == nullptr) fail(ErrorCode::invalid_argument, "value is NULL: pass a place for the result");
    const runtime::MemoryUse use = runtime::memory_use(*communicator);
    switch (static_cast<int>(stat)) {
      case ncclStatGpuMemSuspend:
        *value = use.suspendable_bytes;
        return;
      case ncclStatGpuMemSuspended:
        *value = use.suspended ? 1 : 0;
        return;
      case ncclStatGpuMemPersist:
        *value = use.persistent_bytes;
        return;
      case ncclStatGpuMemTotal:
        *value = use.suspendable_bytes + use.persistent_bytes;
        return;
      default:
        fail(ErrorCode::invalid_argument, "{} is no statistic of ncclCommMemStat_t", static_cast<int>(stat));
    }
  });
}

SCCL_WEAK_NAME(MemAlloc);
SCCL_WEAK_NAME(MemFree);
SCCL_WEAK_NAME(CommRegister);
SCCL_WEAK_NAME(CommDeregister);
SCCL_WEAK_NAME(CommMemStats);

}  // extern "C"
