// Threads of the library's own.
#pragma once

#include <csignal>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"

namespace sccl {

// Signals are the program's business: a thread of the library never runs one of its handlers. Throws system_error when
// the system has no thread to give.
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
    failure = error.what();
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!thread.joinable())
    fail(ErrorCode::system_error, "no thread can be started ({}): raise the limit of threads (ulimit -u)", failure);
  return thread;
}

}  // namespace sccl
