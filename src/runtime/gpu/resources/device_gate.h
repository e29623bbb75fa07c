// When calls of the driver are made that wait for a whole context.
//
// Freeing, unmapping and unloading wait for all that runs in a context, and so may allocating and loading. A kernel may
// wait there for a rank whose host has not come to its call yet, perhaps because it is just about to free something
// itself. So calls allocate and load nothing, and what is to be freed is kept until no kernel of a communicator is in
// flight in the context; launches wait while it is freed.
//
// Kernels of replayed graphs are in flight without the host's knowledge until they begin.
#pragma once

#include <functional>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "platform/gpu/device.h"

namespace sccl::runtime {

class DeviceGate {
 public:
  // The one of the device's context in this process.
  static DeviceGate& of(const gpu::Device& device);

  // What may have kernels in flight, by a function that tells whether it has none. The key removes it.
  using Idle = std::function<bool()>;
  void add(const void* key, Idle idle);
  void remove(const void* key);

  // Held from when a kernel is announced until it is enqueued.
  std::shared_lock<std::shared_mutex> launching() { return std::shared_lock(launches_); }

  // Runs the action and returns true when nothing is in flight; else false.
  bool when_quiet(const std::function<void()>& action);

 private:
  struct Member {
    const void* key;
    Idle idle;
  };

  std::shared_mutex launches_;
  std::mutex mutex_;  // guards what follows
  std::vector<Member> members_;
};

}  // namespace sccl::runtime
