// Helper threads that no signal of the program is delivered to.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"

namespace sccl {

// Starts `body` in a detached thread that takes no signals: the program's handlers run in its own threads only, and
// interrupt no wait of ours. Throws system_error.
template <typename Body>
void start_quiet_thread(const char* what, Body&& body) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // the new thread inherits it
  int error = 0;
  try {
    std::thread(std::forward<Body>(body)).detach();
  } catch (const std::system_error& failure) {
    error = failure.code().value();
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) fail_errno(error, what, "raise the limits on processes and memory (ulimit -u, -v)");
}

}  // namespace sccl
