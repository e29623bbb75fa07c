// Streams of a program whose ranks work on host memory: a call there comes after what is on the stream. The vendor's
// driver is asked for that; in a process without a driver, the runtime that made the stream (one that plays devices on
// the host). What comes on the stream after the call waits for it anyway, because the call returns when its work is
// complete.
#pragma once

#include "platform/gpu/driver.h"

namespace sccl::gpu {

class ForeignStream {
 public:
  // `handle` is not one of the default streams. Throws invalid_argument where neither a driver nor a runtime of this
  // process can tell, and invalid_usage while the stream is being captured.
  explicit ForeignStream(void* handle);

  // Whether all work that was on it has ended. From any thread. Throws device_error.
  bool has_ended() const;
  void* handle() const { return stream_; }

 private:
  using Query = Status (*)(Stream);

  bool is_captured() const;

  Stream stream_;
  const Driver* driver_;
  Query runtime_query_ = nullptr;  // without a driver
  void* context_ = nullptr;        // of the thread that gave it, or device 0's; null for HIP and without a driver
};

}  // namespace sccl::gpu
