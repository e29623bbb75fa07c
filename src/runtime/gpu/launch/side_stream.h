// A stream of this rank's own. If several ranks of one device are given the same stream, their calls must not wait for
// one another on that stream. Between fork() and join(), calls run on the side stream: after all earlier work on the
// program's stream, and before all later work.
#pragma once

#include "platform/gpu/device.h"
#include "runtime/call/requests.h"
#include "runtime/gpu/launch/device_event.h"

namespace sccl::runtime {

class SideStream {
 public:
  // `device` must outlive this object.
  explicit SideStream(const gpu::Device& device);
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  void fork(StreamHandle from);
  // Does nothing without an earlier fork().
  void join();

  // The stream on which a call for `handle` runs now.
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
