// Signals and the gates at which streams wait for them: no wait ends before its signals have come, and every one ends.
#include <catch2/catch.hpp>
#include <random>
#include <thread>

#include "gpu/host_device.h"

using namespace sccl::device::gpu;
using sccl::device::u32;
using sccl::device::u64;

namespace {

constexpr std::size_t kNumbers = 3;

// Of one pair of ranks.
struct Pair {
  alignas(64) u64 arrived[kNumbers]{};
  u64 sent[kNumbers]{};
  u64 used[kNumbers]{};
  SignalGate gate{};
  u64 stopping = 0;

  explicit Pair(u64 begin = 0) {
    for (std::size_t i = 0; i < kNumbers; ++i) arrived[i] = sent[i] = used[i] = begin;
  }
  void run(SignalStep step, std::size_t number, u64 count) {
    SignalArguments arguments{};
    arguments.step = step;
    arguments.count = 1;
    arguments.stopping = &stopping;
    arguments.signals[0] = {&arrived[number], step == SignalStep::send ? &sent[number] : &used[number], &gate,
                            number + 1, count};
    place = {};
    run_signals(arguments);
  }
  bool is_open() const { return load_acquire_system(&gate.open) == 1; }
  void pass() const {
    while (!is_open()) sccl::device::gpu::pause();
  }
};

}  // namespace

TEST_CASE("a stream passes when its signals have come, and not before") {
  Pair pair;
  pair.run(SignalStep::arm, 1, 2);
  CHECK_FALSE(pair.is_open());
  pair.run(SignalStep::send, 0, 0);
  pair.run(SignalStep::send, 1, 0);
  CHECK_FALSE(pair.is_open());
  pair.run(SignalStep::send, 1, 0);
  CHECK(pair.is_open());
  pair.run(SignalStep::confirm, 1, 2);
  CHECK(pair.is_open());
  pair.run(SignalStep::arm, 0, 1);  // has come before
  CHECK(pair.is_open());
  pair.run(SignalStep::arm, 0, 0);  // waits for nothing
  CHECK(pair.is_open());
}

TEST_CASE("a gate that was opened in vain is shut again") {
  Pair pair;
  pair.run(SignalStep::arm, 0, 1);
  pair.gate.open = 1;  // by a sender that had read what was awaited before
  pair.run(SignalStep::confirm, 0, 1);
  CHECK_FALSE(pair.is_open());
  pair.run(SignalStep::send, 0, 0);
  CHECK(pair.is_open());
}

TEST_CASE("counts of signals may wrap") {
  for (const u64 begin : {~0ull - 1, (1ull << kCountBits) - 2, (1ull << (kCountBits - 1)) - 2}) {
    Pair pair(begin);
    for (int i = 0; i < 5; ++i) {
      pair.run(SignalStep::arm, 2, 1);
      CHECK_FALSE(pair.is_open());
      pair.run(SignalStep::send, 2, 0);
      CHECK(pair.is_open());
    }
  }
}

TEST_CASE("a rank that stops sends no signals") {
  Pair pair;
  pair.run(SignalStep::arm, 0, 1);
  pair.stopping = 1;
  pair.run(SignalStep::send, 0, 0);
  CHECK_FALSE(pair.is_open());
  CHECK(pair.arrived[0] == 0);
}

TEST_CASE("waits and late senders: none passes early, none is forgotten") {
  const auto seed = std::random_device{}();
  INFO("seed " << seed);
  std::minstd_rand random(seed);
  std::vector<std::pair<std::size_t, u64>> waits;
  std::vector<std::size_t> sends;
  for (int i = 0; i < 1500; ++i) {
    waits.emplace_back(random() % kNumbers, random() % 3);
    for (u64 n = 0; n < waits.back().second; ++n) sends.push_back(waits.back().first);
  }
  Pair pair;
  late_stores = true;
  std::thread sender([&] {
    // Neither side is far ahead of the other.
    for (const std::size_t number : sends) {
      pair.run(SignalStep::send, number, 0);
      come_late();
    }
  });
  int early = 0;
  for (const auto& [number, count] : waits) {
    pair.run(SignalStep::arm, number, count);
    pair.pass();
    pair.run(SignalStep::confirm, number, count);
    pair.pass();
    if (load_acquire_system(&pair.arrived[number]) < pair.used[number]) ++early;
  }
  sender.join();
  late_stores = false;
  CHECK(early == 0);
}
