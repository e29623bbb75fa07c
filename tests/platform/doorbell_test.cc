// A sleeper is woken whatever order its ringers come in. tests/models/doorbell.pml searches all orders; here they meet
// as a machine lets them.
#include "platform/host/doorbell.h"

#include <catch2/catch.hpp>
#include <thread>

#include "platform/host/fences.h"

using sccl::host::Doorbell;

namespace {

constexpr std::chrono::hours kNever{1};

}  // namespace

TEST_CASE("whoever sees the word of a bell changed sees that the announcement was taken back before") {
  // Else the next announcement could be taken back by the ringer of the last one, and nobody would ring for it.
  Doorbell bell;
  std::atomic<int> turn{0};
  constexpr int kTurns = 20000;
  std::thread ringer([&] {
    for (int i = 0; i < kTurns; ++i) {
      while (turn.load(std::memory_order_acquire) != 2 * i + 1) std::this_thread::yield();
      bell.wake();
      turn.store(2 * i + 2, std::memory_order_release);
    }
  });
  int late = 0;
  for (int i = 0; i < kTurns; ++i) {
    const std::uint32_t seen = bell.word.load(std::memory_order_relaxed);
    bell.sleeping.store(1, std::memory_order_relaxed);
    turn.store(2 * i + 1, std::memory_order_release);
    for (int polls = 0; bell.word.load(std::memory_order_acquire) == seen; ++polls)
      if (polls % 1000 == 999) std::this_thread::yield();
    late += bell.sleeping.load(std::memory_order_relaxed) != 0 ? 1 : 0;
    while (turn.load(std::memory_order_acquire) != 2 * i + 2) std::this_thread::yield();
  }
  ringer.join();
  CHECK(late == 0);
}

TEST_CASE("two ringers wake one sleeper that waits for both, again and again") {
  (void)sccl::host::let_others_fence();
  Doorbell bell;
  constexpr int kRounds = 300;
  std::atomic<int> flags[2]{{0}, {0}};
  std::atomic<int> begun{0};
  std::thread ringers[2];
  for (int me = 0; me < 2; ++me)
    ringers[me] = std::thread([&, me] {
      for (int round = 1; round <= kRounds; ++round) {
        while (begun.load(std::memory_order_acquire) < round) std::this_thread::yield();
        flags[me].store(round, std::memory_order_release);
        sccl::host::light_fence_within_process();
        bell.ring();
      }
    });
  const auto both = [&](int round) {
    return flags[0].load(std::memory_order_acquire) == round && flags[1].load(std::memory_order_acquire) == round;
  };
  for (int round = 1; round <= kRounds; ++round) {
    begun.store(round, std::memory_order_release);
    while (!both(round)) {
      const std::uint32_t seen = bell.prepare_sleep();
      if (both(round))
        bell.cancel_sleep();
      else
        bell.sleep(seen, kNever);  // the test has a limit
    }
  }
  for (std::thread& ringer : ringers) ringer.join();
  SUCCEED();
}
