// Threads of the library itself.
#pragma once

#include <csignal>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"

namespace sccl {

// Starts a thread with all signals blocked: signal handlers of the program must not run on it. Throws system_error when
// the system cannot create a thread.
template <typename Function>
std::thread start_thread(Function&& function) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  std::string failure;
  try {
    thread = std::thread(std::forward<Function>(function));
  } catch (const std::system_error& error) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    failure = error.what();
  } catch (...) {  // no memory
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!thread.joinable())
    fail(ErrorCode::system_error, "no thread can be started ({}): raise the limit of threads (ulimit -u)", failure);
  return thread;
}

}  // namespace sccl
