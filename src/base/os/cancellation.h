// While it lives, pthread_cancel does not end this thread: a cancelled thread would leave a call half done, peers would
// wait for the rest, and peers would use buffers that the unwinding frees. The thread ends at its next cancellation
// point after that.
//
// It costs some fifty instructions. A call that waits for no peer goes without, because it passes no cancellation
// point. Code that may wait, log or open a file needs this object.
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
