// What ranks of one process know of one another's kernels without asking a device.
//
// Where kernels use peers' buffers in place, a rank that gives up takes its buffers back before its caller learns of it:
//
//   the rank that gives up                       a peer that launches
//   withdrawn = true                             launched = number of the kernel
//   ------------- fence -------------            ------------- fence -------------
//   waits until each peer's kernels have ended   refuses when somebody has withdrawn
//
// One of the two sees the other: no kernel begins after the wait that could use the buffers. Kernels of replayed graphs are
// launched by nobody who could look; only those that run at the time are waited for.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "base/types.h"
#include "kernels/gpu/arguments.h"
#include "platform/gpu/memory.h"

namespace sccl::runtime {

class DeviceNeighbour {
 public:
  // Its kernels' words, from when there can be kernels.
  void show(std::shared_ptr<gpu::MappedMemory> words) {
    const std::lock_guard lock(mutex_);
    words_ = std::move(words);
  }

  void launches(device::u64 sequence) { launched_.store(sequence, std::memory_order_seq_cst); }
  device::u64 launched() const { return launched_.load(std::memory_order_seq_cst); }
  void withdraw() { withdrawn_.store(true, std::memory_order_seq_cst); }
  bool has_withdrawn() const { return withdrawn_.load(std::memory_order_seq_cst); }

  // The number of the last kernel that ended.
  device::u64 finished() const;
  // No kernel runs, and none of those launched will.
  bool idle() const;

  // Another rank's kernel was put behind one of this rank on the same stream: it cannot begin before that one has ended.
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
  const device::gpu::HostWords* words() const;

  std::atomic<device::u64> launched_{0};
  std::atomic<bool> withdrawn_{false};
  mutable std::mutex mutex_;  // guards what follows
  std::shared_ptr<gpu::MappedMemory> words_;
  std::optional<Follower> follower_;
};

// A kernel that is to be launched on a stream of a context. Returns the one that was before, of any communicator of this
// process.
struct StreamUse {
  std::shared_ptr<DeviceNeighbour> by;
  device::u64 kernel = 0;
};
StreamUse take_stream(void* context, gpu::Stream stream, const StreamUse& use);

}  // namespace sccl::runtime
