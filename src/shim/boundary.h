// The C boundary: nothing is thrown across it, every error leaves its story behind, every function has two names.
#pragma once

#include <exception>
#include <new>

#include "base/error.h"
#include "base/log.h"
#include "nccl_shim/nccl.h"
#include "runtime/group.h"

// Gives the function pnccl<name>, defined in the same file, its ordinary name. Weak, so that a profiling tool may
// define that name itself.
#define SCCL_WEAK_NAME(name) \
  __attribute__((weak, alias("pnccl" #name), visibility("default"))) decltype(pnccl##name) nccl##name

namespace sccl::shim {

// What ncclGetLastError tells from now on; inside a group the error also waits for the group's end.
ncclResult_t report(const char* call, const Error& error) noexcept;

// Runs the body of a C function. What it throws becomes a result.
template <typename Body>
ncclResult_t guarded(const char* call, Body&& body) noexcept {
  try {
    body();
    return ncclSuccess;
  } catch (const Error& error) {
    return report(call, error);
  } catch (const std::bad_alloc&) {
    return report(call, Error(ErrorCode::system_error, "out of memory: free some"));
  } catch (const std::exception& error) {
    return report(call, Error(ErrorCode::internal_error, error.what()));
  }
}

}  // namespace sccl::shim
