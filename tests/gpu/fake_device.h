// What a device of the fake driver is made of, as strict as a real one may be: hardware queues that streams share, room
// for so many blocks, calls that wait for the whole context, and faults after which nothing works any more.
//
//   stream --push--> channel (first in, first out) --head--> runs when its stream's earlier work has ended
//
// A kernel leaves its channel when it begins. Work that cannot begin yet (its stream is busy, it waits for an event or
// a value) stays at the head, and everything behind it waits, of whatever stream.
#pragma once

#include <unistd.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>

#include "gpu/host_device.h"

namespace fake {

using u64 = unsigned long long;

inline constexpr int kMostDevices = 8;
inline constexpr int kMostChannels = 32;

class Channel {
 public:
  // `also` happens in the same order as the entries of the channel.
  template <typename Also>
  void enter(u64 id, Also&& also) {
    const std::lock_guard lock(mutex_);
    order_.push_back(id);
    also();
  }
  void await_head(u64 id) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return order_.front() == id; });
  }
  // The head leaves.
  void leave() {
    {
      const std::lock_guard lock(mutex_);
      order_.pop_front();
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<u64> order_;
};

// Between processes: one without the multi-process service has a device for itself while it runs kernels there, for a
// time slice at least. In memory that forked processes share.
struct SharedTurns {
  std::atomic<int> owner[kMostDevices];
  std::atomic<int> burnt;
};
SharedTurns& shared_turns();

// Registers and shared memory of a multiprocessor are counted in halves (halves_of_block).
class Room final : public sccl::device::gpu::HostGpu {
 public:
  void set_halves(int halves) {
    {
      const std::lock_guard lock(mutex_);
      halves_ = halves;
    }
    changed_.notify_all();
  }
  bool enter_block(int halves) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return vanished.load(std::memory_order_acquire) || used_ + halves <= halves_; });
    used_ += halves;
    return !vanished.load(std::memory_order_acquire);
  }
  void leave_block(int halves) override {
    {
      const std::lock_guard lock(mutex_);
      used_ -= halves;
    }
    changed_.notify_all();
  }
  void vanish() {
    {
      const std::lock_guard lock(mutex_);
      vanished.store(true, std::memory_order_release);
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int halves_ = 16;
  int used_ = 0;
};

// Of one device in this process.
struct Context {
  std::atomic<int> fault{0};  // what every call returns from now on
  Room room;
  std::array<Channel, kMostChannels> channels;
  // An engine for each direction between host and device. A copy stands there from its call on, though its stream has
  // not come to it yet, and those of other streams wait behind it (seen on an H200 with driver 580).
  Channel to_device, to_host;
  std::atomic<int> streams{0};  // made so far

  // Of processes that take turns on the device.
  std::mutex turn_mutex;
  int running_in_turn = 0;
};

}  // namespace fake
