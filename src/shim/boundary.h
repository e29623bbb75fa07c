// The C boundary: no exception crosses it, every error leaves its text behind, every function has two names.
#pragma once

#include <atomic>
#include <exception>
#include <new>
#include <type_traits>

#include "base/error.h"
#include "base/os/cancellation.h"
#include "base/settings/log.h"
#include "nccl_shim/nccl.h"
#include "runtime/communicator/group.h"

// Gives the function pnccl<name>, defined in the same file, its ordinary name. Weak, so that a profiling tool may
// define that name itself.
#define SCCL_WEAK_NAME(name) \
  __attribute__((weak, alias("pnccl" #name), visibility("default"))) decltype(pnccl##name) nccl##name

namespace sccl::shim {

// Sets the text of ncclGetLastError. If the program cannot ask for the text and NCCL_DEBUG is not set, the text also
// goes to standard error, once (unheard_errors.h).
ncclResult_t report(const char* call, const Error& error) noexcept;
// The same for what is no Error: a lack of memory, or an exception that nobody expects.
ncclResult_t report(const char* call, const std::exception& error) noexcept;

inline ncclResult_t to_result(runtime::Completion completion) {
  return completion == runtime::Completion::done ? ncclSuccess : ncclInProgress;
}

// Whether calls have lines in the log: not looked up yet, no, or yes. Every call asks, so asking costs one load.
// ncclResetDebugInit forgets the answer. The value stands for itself, so no order is needed.
enum class CallLines : int { unknown, none, some };
extern std::atomic<CallLines> call_lines;
CallLines look_up_call_lines();
// Reads the settings of the log again.
void reset_log();

inline bool has_call_lines() {
  CallLines lines = call_lines.load(std::memory_order_relaxed);
  if (lines == CallLines::unknown) [[unlikely]]
    lines = look_up_call_lines();
  return lines == CallLines::some;
}

// Logs every call of a program at TRACE (NCCL_DEBUG_SUBSYS=CALL).
inline ncclResult_t traced(const char* call, ncclResult_t result) {
  if (has_call_lines()) [[unlikely]] {
    const NoCancellation uncancelled;
    log::trace(log::Subsystem::call, "{} returns {}", call, static_cast<int>(result));
  }
  return result;
}

// Runs the body of a C function; the body returns nothing or a runtime::Completion. Exceptions become results.
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
  } catch (const std::exception& error) {
    return report(call, error);
  }
}

// As caught(), for a function that may wait.
template <typename Body>
ncclResult_t guarded(const char* call, Body&& body) noexcept {
  const NoCancellation uncancelled;
  return caught(call, body);
}

// Runs the body of what a group queues. Inside a group what it throws is also kept until the group's end.
template <typename Body>
auto kept_in_group(Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    runtime::group_fail(error);
    throw;
  } catch (const std::bad_alloc&) {
    runtime::group_lacks_memory();
    throw;
  } catch (const std::exception& error) {
    try {
      runtime::group_fail(Error(ErrorCode::internal_error, error.what()));
    } catch (const std::bad_alloc&) {
      runtime::group_lacks_memory();
    }
    throw;
  }
}

// As guarded(), for a function whose work a group queues.
template <typename Body>
ncclResult_t queued(const char* call, Body&& body) noexcept {
  return guarded(call, [&] { return kept_in_group(body); });
}

// As queued(), for the plain calls that move data. The fifty instructions of NoCancellation are much for a short call,
// so the runtime disables cancellation only where such a call plans, waits, logs, or uses the engine between hosts.
// What the call does besides is no cancellation point.
template <typename Body>
ncclResult_t queued_short(const char* call, Body&& body) noexcept {
  return caught(call, [&] { return kept_in_group(body); });
}

}  // namespace sccl::shim
