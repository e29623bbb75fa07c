// How a thread waits when no lane can go on: the thread spins, then yields the core, then sleeps until a peer rings.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "platform/host/doorbell.h"

namespace sccl::runtime {

class Waiter {
 public:
  using Clock = std::chrono::steady_clock;

  // The cores that the ranks of this host share.
  static int cores();
  // With more ranks on this host than cores, the thread spins for a shorter time.
  explicit Waiter(int ranks_on_host);

  // What a poll asks: words in memory, or an engine between hosts, too, which asks the system. Such a poll takes many
  // times as long: it spins fewer times. It does not spin at all while a thread that waits, too, shares its core: that
  // may be the one it waits for.
  enum class Polls : std::uint8_t { memory, engine };
  void expect(Polls polls) {
    const bool engine = polls == Polls::engine;
    lone_spin_polls_ = engine ? std::max(1, memory_spin_polls_ / kEngineSpinPart) : memory_spin_polls_;
    watches_core_ = engine && lone_spin_polls_ > 1;
    spin_polls_ = watches_core_ && shares_core_ ? 1 : lone_spin_polls_;
  }

  // With more ranks on this host than cores: the first pause gives the core away.
  bool yields_at_once() const { return memory_spin_polls_ == 1; }

  // Something moved: the next pause spins again.
  void reset() { polls_ = 0; }

  enum class Next : std::uint8_t { poll, check_health };
  // Passes time between two polls. `place`: where to sleep. No bell when several ranks wait on this thread: the thread
  // then sleeps briefly without one. `ready` is cheap; when it returns true, a poll may find work and spinning ends.
  // `poll` is called once more after the thread has announced its sleep; if it returns true, the thread does not sleep.
  template <typename Ready, typename Poll>
  Next pause(host::SleepingPlace place, Ready&& ready, Poll&& poll) {
    if (polls_ + 1 < spin_polls_) {
      do {
        ++polls_;
        relax();
      } while (!ready() && polls_ + 1 < spin_polls_);
      return Next::poll;
    }
    ++polls_;
    if (polls_ == spin_polls_) began_ = Clock::now();
    if (polls_ < spin_polls_ + kYields && Clock::now() - began_ < kYielding) {
      watches_core_ ? yield_and_watch() : yield();
      return Next::poll;
    }
    if (place.own == nullptr) {
      nap();
    } else {
      const host::SleepingPlace::Seen seen = place.prepare_sleep();
      if (poll())
        place.cancel_sleep();
      else
        place.sleep(seen, kSleep);
    }
    return Next::check_health;
  }

  // For waits without a cheap `ready`.
  template <typename Poll>
  Next pause(host::SleepingPlace place, Poll&& poll) {
    return pause(
        place, [] { return true; }, poll);
  }

  // The time since the thread stopped spinning.
  std::chrono::milliseconds waited() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began_);
  }

 private:
  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  // A rank that comes a little late finds the others awake: it would wake them one after the other, which takes longer
  // than the whole call. Threads that yield take next to nothing from those that compute.
  static constexpr int kYields = 1024;
  static constexpr std::chrono::milliseconds kYielding{5};  // with many threads on a core a yield takes long
  static constexpr int kEngineSpinPart = 50;
  // Death and abort of a peer ring no bell, so sleep ends to look for them.
  static constexpr std::chrono::microseconds kSleep{20000};

  static void yield();
  void yield_and_watch();
  static void nap();

  int memory_spin_polls_;
  int lone_spin_polls_;  // of a thread that has its core for itself
  int spin_polls_;
  bool watches_core_ = false;
  bool shares_core_ = false;  // another thread that waits ran during the last yield that was watched
  int polls_ = 0;
  Clock::time_point began_ = Clock::now();
};

}  // namespace sccl::runtime
