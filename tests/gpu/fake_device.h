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
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "gpu/host_device.h"
#include "gpu/multiprocessors.h"

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

// A block has found no multiprocessor for as long as the fake waits; it waits on.
void tell_no_room(const BlockNeeds& block, const std::string& kernel);
std::chrono::milliseconds patience();

// Of the thread that launches: whose blocks these are.
inline thread_local BlockNeeds needs_of_block;
inline thread_local std::string launched_kernel;

class Room final : public sccl::device::gpu::HostGpu {
 public:
  void set_multiprocessors(int count) {
    {
      const std::lock_guard lock(mutex_);
      multiprocessors_.resize(count);
    }
    changed_.notify_all();
  }
  int blocks() {
    const std::lock_guard lock(mutex_);
    return multiprocessors_.blocks();
  }
  std::optional<Seat> enter_block() override {
    const BlockNeeds needs = needs_of_block;
    std::optional<int> found;
    const auto look = [&] {
      return vanished.load(std::memory_order_acquire) || (found = multiprocessors_.place(needs)).has_value();
    };
    std::unique_lock lock(mutex_);
    constexpr int kTimes = 4;  // a machine under load lets all that wait take its turn
    if (!changed_.wait_for(lock, kTimes * patience(), look)) {
      lock.unlock();
      tell_no_room(needs, launched_kernel);
      lock.lock();
      changed_.wait(lock, look);
    }
    if (!found) return std::nullopt;
    return [this, needs, at = *found] { leave_block(at, needs); };
  }
  void vanish() {
    {
      const std::lock_guard lock(mutex_);
      vanished.store(true, std::memory_order_release);
    }
    changed_.notify_all();
  }

 private:
  void leave_block(int multiprocessor, const BlockNeeds& needs) {
    {
      const std::lock_guard lock(mutex_);
      multiprocessors_.end(multiprocessor, needs);
    }
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Multiprocessors multiprocessors_{8};
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
