// One thread of the process that ends calls whose time is over: a call that blocks in its own thread cannot look at the
// clock. Arming costs two stores; the thread is woken only for a deadline earlier than the one it sleeps for.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

namespace sccl_torch {

using Clock = std::chrono::steady_clock;

class Watched {
 public:
  // `expire` runs in the watchdog's thread, with the number of the call whose deadline has passed.
  explicit Watched(std::function<void(std::uint64_t call)> expire);
  ~Watched();  // returns when no expire() runs any more
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  // One call at a time.
  void arm(std::uint64_t call, Clock::time_point deadline);
  void disarm() { deadline_.store(kNone, std::memory_order_seq_cst); }

 private:
  friend class Watchdog;
  static constexpr std::int64_t kNone = INT64_MAX;
  std::atomic<std::int64_t> deadline_{kNone};  // pairs with Watchdog::sleep_until_
  std::atomic<std::uint64_t> call_{0};         // ordered by deadline_
  std::function<void(std::uint64_t)> expire_;
};

}  // namespace sccl_torch
