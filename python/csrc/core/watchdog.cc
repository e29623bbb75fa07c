#include "watchdog.h"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace sccl_torch {

// Lives as long as the process: its thread may not be joined by a destructor that runs at exit.
class Watchdog {
 public:
  static Watchdog& instance() {
    static Watchdog* const made = new Watchdog;
    return *made;
  }

  void add(Watched* watched) {
    const std::lock_guard<std::mutex> lock(mutex_);
    watched_.push_back(watched);
    if (!started_) {
      std::thread([this] { run(); }).detach();
      started_ = true;
    }
  }

  void remove(Watched* watched) {
    std::unique_lock<std::mutex> lock(mutex_);
    watched_.erase(std::remove(watched_.begin(), watched_.end(), watched), watched_.end());
    changed_.wait(lock, [&] { return expiring_ != watched; });
  }

  void note(std::int64_t deadline) {
    if (deadline >= sleep_until_.load(std::memory_order_seq_cst)) return;  // pairs with earliest()
    const std::lock_guard<std::mutex> lock(mutex_);
    changed_.notify_all();
  }

 private:
  static std::int64_t now() { return Clock::now().time_since_epoch().count(); }

  // The new time of waking is visible before the deadlines are read, and a deadline before the time of waking is read:
  // one of the two threads sees the other's.
  std::int64_t earliest() {
    std::int64_t least = Watched::kNone;
    sleep_until_.store(least, std::memory_order_seq_cst);
    for (const Watched* watched : watched_) least = std::min(least, watched->deadline_.load(std::memory_order_seq_cst));
    sleep_until_.store(least, std::memory_order_seq_cst);
    return least;
  }

  void expire(std::unique_lock<std::mutex>& lock, Watched* watched, std::int64_t deadline) {
    const std::uint64_t call = watched->call_.load(std::memory_order_relaxed);
    if (!watched->deadline_.compare_exchange_strong(deadline, Watched::kNone, std::memory_order_seq_cst)) return;
    expiring_ = watched;
    lock.unlock();
    watched->expire_(call);
    lock.lock();
    expiring_ = nullptr;
    changed_.notify_all();
  }

  void run() {
    ::pthread_setname_np(::pthread_self(), "sccl-deadlines");
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      const std::vector<Watched*> all = watched_;
      for (Watched* watched : all) {
        // An expire() lets go of the lock, so others may have been removed meanwhile.
        if (std::find(watched_.begin(), watched_.end(), watched) == watched_.end()) continue;
        const std::int64_t deadline = watched->deadline_.load(std::memory_order_seq_cst);
        if (deadline <= now()) expire(lock, watched, deadline);
      }
      const std::int64_t until = earliest();
      if (until == Watched::kNone)
        changed_.wait(lock);
      else
        changed_.wait_until(lock, Clock::time_point(Clock::duration(until)));
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Watched*> watched_;
  Watched* expiring_ = nullptr;
  bool started_ = false;
  std::atomic<std::int64_t> sleep_until_{Watched::kNone};  // pairs with Watched::deadline_
};

Watched::Watched(std::function<void(std::uint64_t)> expire) : expire_(std::move(expire)) {
  Watchdog::instance().add(this);
}

Watched::~Watched() { Watchdog::instance().remove(this); }

void Watched::arm(std::uint64_t call, Clock::time_point deadline) {
  call_.store(call, std::memory_order_relaxed);
  const std::int64_t at = deadline.time_since_epoch().count();
  deadline_.store(at, std::memory_order_seq_cst);
  Watchdog::instance().note(at);
}

}  // namespace sccl_torch
