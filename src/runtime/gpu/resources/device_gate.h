// When memory of a device is freed: while no kernel of a communicator is in flight in the context.
//
// In the driver, freeing, unmapping and unloading wait for everything that runs in a context; allocating and loading
// may do so, too. A kernel there may wait for another rank of this process, whose thread may be the one that frees:
// neither would ever end. So calls allocate and load nothing, memory is kept until no kernel is in flight, and
// launches wait while it is freed.
//
// The host does not see kernels of replayed graphs until they begin.
#pragma once

#include <functional>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "platform/gpu/device.h"

namespace sccl::runtime {

class DeviceGate {
 public:
  // The gate of the device's context in this process.
  static DeviceGate& of(const gpu::Device& device);

  // Adds an owner of kernels. `idle` tells whether none of them is in flight; `key` removes the owner.
  using Idle = std::function<bool()>;
  void add(const void* key, Idle idle);
  void remove(const void* key);

  // The caller holds this lock from the announcement of a kernel until the kernel is enqueued.
  std::shared_lock<std::shared_mutex> launching() { return std::shared_lock(launches_); }

  // Runs the action if nothing is in flight. Returns whether it ran.
  bool when_quiet(const std::function<void()>& action);

 private:
  struct Member {
    const void* key;
    Idle idle;
  };

  std::shared_mutex launches_;
  std::mutex mutex_;  // guards members_
  std::vector<Member> members_;
};

}  // namespace sccl::runtime
