// The C boundary: nothing is thrown across it, every error leaves its story behind, every function has two names.
#pragma once

#include <pthread.h>

#include <exception>
#include <new>
#include <type_traits>

#include "base/error.h"
#include "base/log.h"
#include "nccl_shim/nccl.h"
#include "runtime/communicator/group.h"

// Gives the function pnccl<name>, defined in the same file, its ordinary name. Weak, so that a profiling tool may
// define that name itself.
#define SCCL_WEAK_NAME(name) \
  __attribute__((weak, alias("pnccl" #name), visibility("default"))) decltype(pnccl##name) nccl##name

namespace sccl::shim {

// What ncclGetLastError tells from now on.
ncclResult_t report(const char* call, const Error& error) noexcept;

inline ncclResult_t to_result(runtime::Completion completion) {
  return completion == runtime::Completion::done ? ncclSuccess : ncclInProgress;
}

// A thread is not cancelled within a call (pthread_cancel): peers would wait for what it leaves half done, and use
// buffers that its unwinding frees. It is at its next cancellation point after the call.
class NoCancellation {
 public:
  NoCancellation() { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() { ::pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

// Runs the body of a C function, which returns nothing or a runtime::Completion. What it throws becomes a result.
template <typename Body>
ncclResult_t guarded(const char* call, Body&& body) noexcept {
  const NoCancellation no_cancellation;
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Body>>) {
      body();
      return ncclSuccess;
    } else {
      return to_result(body());
    }
  } catch (const Error& error) {
    return report(call, error);
  } catch (const std::bad_alloc&) {
    return report(call, Error(ErrorCode::system_error, "out of memory: free some"));
  } catch (const std::exception& error) {
    return report(call, Error(ErrorCode::internal_error, error.what()));
  }
}

// The same for a function whose work a group queues: inside one its error also waits for the group's end.
template <typename Body>
ncclResult_t queued(const char* call, Body&& body) noexcept {
  return guarded(call, [&] {
    try {
      return body();
    } catch (const Error& error) {
      runtime::group_fail(error);
      throw;
    }
  });
}

}  // namespace sccl::shim
