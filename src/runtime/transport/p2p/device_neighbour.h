// What ranks know of one another's kernels without asking a device: words in host memory that all of them see, whether
// they are threads of one process or processes.
//
// Where kernels use peers' buffers in place, a rank that gives up takes its buffers back before its caller learns of
// it:
//
//   the rank that gives up                       a peer that launches
//   withdrawn = true                             launched = number of the kernel
//   ------------- fence -------------            ------------- fence -------------
//   waits until each peer's kernels have ended   refuses when somebody has withdrawn
//   or its process has
//
// One of the two sees the other: no kernel begins after the wait that could use the buffers. Kernels of replayed graphs
// are launched by nobody who could look; only those that run at the time are waited for.
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

// One rank's, in the page that its shared memory has for it.
struct NeighbourWords {
  device::gpu::HostWords kernels;  // written by its kernels, through a mapping of this page, and by its own host
  alignas(64) std::atomic<device::u64> launched{0};  // number of its last kernel
  std::atomic<std::uint64_t> withdrawn{0};
  std::atomic<std::uint64_t> collectives{0};  // enqueued, or captured
  std::atomic<std::uint64_t> lost{0};         // 1: its device runs nothing any more

  // The number of the last kernel that ended.
  device::u64 finished() const;
  // No kernel runs, and none of those launched will, if not because the device is lost.
  bool idle() const;
};
static_assert(sizeof(NeighbourWords) <= MemoryLayout::kDevicePageBytes);
static_assert(std::atomic<device::u64>::is_always_lock_free);

// Another rank of this process.
class DeviceNeighbour {
 public:
  // Its kernel was put behind one of this rank on the same stream: it cannot begin before that one has ended.
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

// A kernel that is to be launched on a stream of a context. Returns the one that was before, of any communicator of
// this process.
struct StreamUse {
  std::shared_ptr<DeviceNeighbour> by;
  device::u64 kernel = 0;
};
StreamUse take_stream(void* context, gpu::Stream stream, const StreamUse& use);

}  // namespace sccl::runtime
