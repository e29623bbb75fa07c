// A stream of this rank's own. If several ranks of one device are given the same stream, their calls must not wait for
// one another on that stream. Between fork() and join(), calls run on the side stream: after all earlier work on the
// program's streams that they were given, and before all later work.
//
// A group's work that was given several streams comes after the earlier work on all of them and before the later work
// on each, as NCCL orders it: between gather() and join() all calls run on one stream.
#pragma once

#include <optional>
#include <span>
#include <vector>

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
  // Of all streams that the calls until join() are given. Enqueues on the first one, or on the side stream after a
  // fork.
  void gather(std::span<const StreamHandle> streams);
  // Does nothing without earlier calls of the others.
  void join();

  // The stream on which a call for `handle` runs now.
  gpu::Stream stream_for(StreamHandle handle);

 private:
  // A stream of the program that waits at join() for the one that runs its calls.
  struct Joined {
    gpu::Stream runs;
    gpu::Stream waits;
    bool operator==(const Joined&) const = default;
  };
  void enter(const Joined& joined);
  void order(gpu::Stream first, gpu::Stream second);

  const gpu::Device& device_;
  DeviceEvent event_;
  gpu::Stream stream_ = nullptr;
  bool forked_ = false;
  std::optional<gpu::Stream> gathered_;  // where all calls run
  std::vector<Joined> joined_;
};

}  // namespace sccl::runtime
