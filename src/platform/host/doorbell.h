// How an idle rank sleeps, and how its peers wake it.
//
//   sleeper                                ringer
//   sleeping = 1                           stores the awaited flag
//   heavy fence                            light fence
//   looks for work once more               reads sleeping
//   futex_wait(word, value seen before)    if 1: sleeping = 0, word += 1, futex_wake
//
// tests/models/doorbell.pml proves this. The two fences order each side's store before its load, so that either the
// sleeper sees the flag or the ringer sees `sleeping`. Messages are frequent and sleeps are rare, so the sleeper
// executes the heavy fence (fences.h). A wait still has a time limit, because the death or abort of a peer rings no
// bell.
//
// Several ranks may sleep at one shared bell besides their own ones. Who rings it wakes all of them by one system call,
// which takes two thirds of the time of a call for each. None of them takes its announcement back, as others may sleep
// on: only who wakes them does, before the word changes. tests/models/shared_bell.pml proves this.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace sccl::host {

struct alignas(64) Doorbell {
  std::atomic<std::uint32_t> word{0};
  std::atomic<std::uint32_t> sleeping{0};

  // What the ringer does after its fence; pairs with prepare_sleep().
  void ring() {
    if (sleeping.load(std::memory_order_relaxed) != 0) wake();
  }
  void wake();
  // As ring(), but not for a sleeper that is at a shared bell, too.
  void ring_if_alone() {
    if (sleeping.load(std::memory_order_relaxed) == kAlone) wake();
  }

  // Announces sleep and returns the word's value for sleep(). The caller looks for work between this and sleep().
  std::uint32_t prepare_sleep();
  void sleep(std::uint32_t seen, std::chrono::microseconds limit);
  void cancel_sleep() { sleeping.store(0, std::memory_order_relaxed); }

  static constexpr std::uint32_t kAlone = 1;
  static constexpr std::uint32_t kBesideShared = 2;
};

// Where a thread sleeps: at its own bell, or also at one that it shares. The system may be unable to wait for two words
// (Linux before 5.16): then the thread sleeps at its own bell alone, and whoever rings sees that.
struct SleepingPlace {
  SleepingPlace(Doorbell* own_bell, Doorbell* shared_bell = nullptr);

  // As of a Doorbell.
  struct Seen {
    std::uint32_t own = 0;
    std::uint32_t shared = 0;
  };
  Seen prepare_sleep() const;
  void sleep(Seen seen, std::chrono::microseconds limit) const;
  void cancel_sleep() const { own->cancel_sleep(); }

  Doorbell* own;     // null: nobody rings
  Doorbell* shared;  // null: none
};

}  // namespace sccl::host
