// How a rank that has nothing to do sleeps, and how its peers wake it.
//
//   sleeper                                ringer
//   sleeping = 1                           stores the awaited flag
//   heavy fence                            light fence
//   looks for work once more               reads sleeping
//   futex_wait(word, value seen before)    if 1: sleeping = 0, word += 1, futex_wake
//
// tests/models/doorbell.pml is the proof. The two fences order each side's store before its load, so that either the
// sleeper sees the flag or the ringer sees that it sleeps; messages are many and sleeps are few, so that the sleeper's
// is the heavy one (fences.h). A wait still has a time limit, because death and abort of peers ring no bell.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace sccl::host {

struct alignas(64) Doorbell {
  std::atomic<std::uint32_t> word{0};
  std::atomic<std::uint32_t> sleeping{0};

  // The ringer's half after its fence; pairs with prepare_sleep().
  void ring() {
    if (sleeping.load(std::memory_order_relaxed) != 0) wake();
  }
  void wake();

  // Announces sleep and returns the word to sleep on. The caller looks for work after this and before sleep().
  std::uint32_t prepare_sleep();
  void sleep(std::uint32_t seen, std::chrono::microseconds limit);
  void cancel_sleep() { sleeping.store(0, std::memory_order_relaxed); }
};

}  // namespace sccl::host
