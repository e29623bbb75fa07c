// The C boundary: nothing is thrown across it, every error leaves its story behind, every function has two names.
#pragma once

#include <exception>
#include <new>
#include <type_traits>

#include "base/cancellation.h"
#include "base/error.h"
#include "base/log.h"
#include "nccl_shim/nccl.h"
#include "runtime/communicator/group.h"

// Gives the function pnccl<name>, defined in the same file, its ordinary name. Weak, so that a profiling tool may
// define that name itself.
#define SCCL_WEAK_NAME(name) \
  __attribute__((weak, alias("pnccl" #name), visibility("default"))) decltype(pnccl##name) nccl##name

namespace sccl::shim {

// What ncclGetLastError tells from now on. Where the program cannot ask for it and NCCL_DEBUG is not set, the text goes
// to standard error as well, once (unheard_errors.h).
ncclResult_t report(const char* call, const Error& error) noexcept;

inline ncclResult_t to_result(runtime::Completion completion) {
  return completion == runtime::Completion::done ? ncclSuccess : ncclInProgress;
}

// A line at TRACE for every function that a program calls (NCCL_DEBUG_SUBSYS=CALL).
inline ncclResult_t traced(const char* call, ncclResult_t result) {
  log::trace(log::Subsystem::call, "{} returns {}", call, static_cast<int>(result));
  return result;
}

// Runs the body of a C function, which returns nothing or a runtime::Completion. What it throws becomes a result.
template <typename Body>
ncclResult_t caught(const char* call, Body&& body) noexcept {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Body>>) {
      body();
      return traced(call, ncclSuccess);
    } else {
      return traced(call, to_result(body()));
    }
  } catch (const Error& error) {
    return report(call, error);
  } catch (const std::bad_alloc&) {
    return report(call, Error(ErrorCode::system_error, "out of memory: free some"));
  } catch (const std::exception& error) {
    return report(call, Error(ErrorCode::internal_error, error.what()));
  }
}

// The same for a function that may wait.
template <typename Body>
ncclResult_t guarded(const char* call, Body&& body) noexcept {
  const NoCancellation uncancelled;
  return caught(call, body);
}

// The same for a function whose work a group queues: inside one its error also waits for the group's end. Outside of
// one the runtime forbids cancellation where the call begins to wait.
template <typename Body>
ncclResult_t queued(const char* call, Body&& body) noexcept {
  return caught(call, [&] {
    try {
      return body();
    } catch (const Error& error) {
      runtime::group_fail(error);
      throw;
    }
  });
}

}  // namespace sccl::shim
