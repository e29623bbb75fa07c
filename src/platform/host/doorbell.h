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

  // Announces sleep and returns the word's value for sleep(). The caller looks for work between this and sleep().
  std::uint32_t prepare_sleep();
  void sleep(std::uint32_t seen, std::chrono::microseconds limit);
  void cancel_sleep() { sleeping.store(0, std::memory_order_relaxed); }
};

}  // namespace sccl::host
