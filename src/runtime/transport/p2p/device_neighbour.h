// The state of a rank's kernels, in words of host memory that all ranks see, of this process and of others. Reading the
// words needs no device.
//
// Kernels may use peers' buffers in place. So a rank that gives up withdraws its buffers before its caller gets the
// error:
//
//   the rank that gives up                       a peer that launches
//   withdrawn = true                             launched = number of the kernel
//   ------------- fence -------------            ------------- fence -------------
//   waits until each peer's kernels or           refuses to launch if a rank has withdrawn
//   its process have ended
//
// At least one of the two sees the other's store, so no kernel that could use the buffers begins after the wait. No
// host code launches the kernels of a replayed graph, so they cannot be refused: the wait covers only those that run at
// that time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "base/types.h"
#include "kernels/gpu/arguments.h"
#include "platform/gpu/memory.h"
#include "runtime/transport/shm/memory_layout.h"

namespace sccl::runtime {

// The words of one rank, in the device page of its shared memory.
struct NeighbourWords {
  device::gpu::HostWords kernels;  // written by the rank's kernels, which map this page, and by the rank's host
  alignas(64) std::atomic<device::u64> launched{0};  // number of the rank's last kernel
  std::atomic<std::uint64_t> withdrawn{0};
  std::atomic<std::uint64_t> collectives{0};  // number of collectives enqueued or captured
  std::atomic<std::uint64_t> lost{0};         // 1: the rank's device has failed and runs no kernels any more

  // The number of the last kernel that ended.
  device::u64 finished() const;
  // No kernel runs, and every launched kernel has ended; or the device is lost.
  bool idle() const;
};
static_assert(sizeof(NeighbourWords) <= MemoryLayout::kDevicePageBytes);
static_assert(std::atomic<device::u64>::is_always_lock_free);

// Another rank of this process.
class DeviceNeighbour {
 public:
  // Another rank's kernel follows a kernel of this rank on the same stream, so it cannot begin before this rank's
  // kernel has ended.
  struct Follower {
    Rank rank = 0;
    device::u64 own_kernel = 0;
    device::u64 its_kernel = 0;
  };
  void is_followed_by(const Follower& follower) {
    const std::lock_guard lock(mutex_);
    follower_ = follower;
  }
  std::optional<Follower> follower() const {
    const std::lock_guard lock(mutex_);
    return follower_;
  }

 private:
  mutable std::mutex mutex_;
  std::optional<Follower> follower_;
};

// Records the kernel that will be launched next on a stream of a context. Returns the previous kernel of the stream, of
// any communicator of this process.
struct StreamUse {
  std::shared_ptr<DeviceNeighbour> by;
  device::u64 kernel = 0;
};
StreamUse take_stream(void* context, const gpu::StreamIdentity& stream, const StreamUse& use);

}  // namespace sccl::runtime
