// Buffers and their registration on the host platform, where every buffer can be reached without either.
#include <cstdlib>

#include "shim/boundary.h"
#include "shim/handles.h"

using namespace sccl;
using namespace sccl::shim;

extern "C" {

// Aligned as windows require.
ncclResult_t pncclMemAlloc(void** ptr, size_t size) {
  return guarded("ncclMemAlloc", [&] {
    if (ptr == nullptr) fail(ErrorCode::invalid_argument, "ptr is NULL: pass a place for the result");
    const size_t pages = size / NCCL_WIN_REQUIRED_ALIGNMENT + 1;
    *ptr = pages > SIZE_MAX / NCCL_WIN_REQUIRED_ALIGNMENT
               ? nullptr
               : std::aligned_alloc(NCCL_WIN_REQUIRED_ALIGNMENT, pages * NCCL_WIN_REQUIRED_ALIGNMENT);
    if (*ptr == nullptr) fail(ErrorCode::system_error, "{} bytes of host memory cannot be had: free some", size);
  });
}

ncclResult_t pncclMemFree(void* ptr) {
  std::free(ptr);
  return ncclSuccess;
}

// A NULL handle is NCCL's own answer for a buffer that gains nothing from registration.
ncclResult_t pncclCommRegister(const ncclComm_t comm, void*, size_t, void** handle) {
  return guarded("ncclCommRegister", [&] {
    communicator_of(comm);
    if (handle == nullptr) fail(ErrorCode::invalid_argument, "handle is NULL: pass a place for the result");
    *handle = nullptr;
  });
}

ncclResult_t pncclCommDeregister(const ncclComm_t, void* handle) {
  return guarded("ncclCommDeregister", [&] {
    if (handle != nullptr) fail(ErrorCode::invalid_usage, "handle {} is not one that ncclCommRegister returned", handle);
  });
}

ncclResult_t pncclCommWindowDeregister(ncclComm_t, ncclWindow_t win) {
  return guarded("ncclCommWindowDeregister", [&] {
    if (win != nullptr)
      fail(ErrorCode::invalid_usage, "window {} is not one that ncclCommWindowRegister returned",
           static_cast<void*>(win));
  });
}

SCCL_WEAK_NAME(MemAlloc);
SCCL_WEAK_NAME(MemFree);
SCCL_WEAK_NAME(CommRegister);
SCCL_WEAK_NAME(CommDeregister);
SCCL_WEAK_NAME(CommWindowDeregister);

}  // extern "C"
