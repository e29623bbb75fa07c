// While it lives, pthread_cancel does not end this thread: peers would wait for what a call leaves half done, and use
// buffers that the unwinding frees. The thread ends at its next cancellation point after that.
//
// It costs some fifty instructions, so that a call which waits for nobody goes without: nothing on its way is a
// cancellation point. What may wait, log or open a file takes one.
#pragma once

#include <pthread.h>

namespace sccl {

class NoCancellation {
 public:
  NoCancellation() { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() { ::pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace sccl
