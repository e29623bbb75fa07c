// Streams of a program whose ranks work on host memory: a call there comes after what is on the stream, which the
// vendor's driver is asked for. What comes on the stream after the call waits for it anyway, because the call returns
// when its work is complete.
#pragma once

#include "platform/gpu/driver.h"

namespace sccl::gpu {

class ForeignStream {
 public:
  // `handle` is not one of the default streams. Throws invalid_argument where no driver of this process can tell, and
  // invalid_usage while the stream is being captured.
  explicit ForeignStream(void* handle);

  // Whether all work that was on it has ended. From any thread. Throws device_error.
  bool has_ended() const;
  void* handle() const { return stream_; }

 private:
  const Driver* driver_;
  Stream stream_;
  void* context_ = nullptr;  // of the thread that gave it; null for HIP
};

}  // namespace sccl::gpu
