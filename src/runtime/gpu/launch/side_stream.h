// A stream of this rank's own. Several ranks of one device whose calls are given the same stream must not wait for one
// another on it: between fork() and join(), calls run on the side stream, after what was on the program's stream before
// and before what comes after.
#pragma once

#include "platform/gpu/device.h"
#include "runtime/call/requests.h"
#include "runtime/gpu/launch/device_event.h"

namespace sccl::runtime {

class SideStream {
 public:
  // `device` must outlive it.
  explicit SideStream(const gpu::Device& device);
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  void fork(StreamHandle from);
  // Nothing to do where nothing was forked.
  void join();

  // Where a call for this stream runs now.
  gpu::Stream stream_for(StreamHandle handle) const { return forked_ ? stream_ : static_cast<gpu::Stream>(handle); }

 private:
  void order(gpu::Stream first, gpu::Stream second);

  const gpu::Device& device_;
  DeviceEvent event_;
  gpu::Stream stream_ = nullptr;
  gpu::Stream forked_from_ = nullptr;
  bool forked_ = false;
};

}  // namespace sccl::runtime
