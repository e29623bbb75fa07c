#include "runtime/waiting/waiter.h"

#include <sched.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

using namespace sccl::runtime;

namespace {

constexpr int kCrowd = 100000;  // more ranks than any host has cores

struct Patience {
  int spins = 0;   // of the first pause
  int pauses = 0;  // until the thread would sleep
};

Patience patience_of(Waiter::Polls polls, int ranks_on_host) {
  Waiter waiter(ranks_on_host);
  waiter.expect(polls);
  Patience patience;
  const auto ready = [&] {
    if (patience.pauses == 0) ++patience.spins;
    return false;
  };
  while (waiter.pause(nullptr, ready, [] { return true; }) == Waiter::Next::poll) ++patience.pauses;
  return patience;
}

}  // namespace

TEST_CASE("a thread that polls an engine spins fewer times and yields more often before it sleeps") {
  const Patience memory = patience_of(Waiter::Polls::memory, 1);
  const Patience engine = patience_of(Waiter::Polls::engine, 1);
  CHECK(engine.spins < memory.spins / 4);
  CHECK(engine.pauses > 4 * memory.pauses);
}

TEST_CASE("where ranks outnumber cores nobody spins, and who polls an engine yields more often all the same") {
  const Patience memory = patience_of(Waiter::Polls::memory, kCrowd);
  const Patience engine = patience_of(Waiter::Polls::engine, kCrowd);
  CHECK(memory.spins == 0);
  CHECK(engine.spins == 0);
  CHECK(engine.pauses > 4 * memory.pauses);
}

TEST_CASE("a thread that polls an engine does not spin while a thread that waits, too, shares its core") {
  cpu_set_t before;
  REQUIRE(::sched_getaffinity(0, sizeof before, &before) == 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(::sched_getcpu(), &one);
  REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);  // for the other thread, too
  Waiter waiter(1);
  waiter.expect(Waiter::Polls::engine);
  const auto spins = [&] {  // of a wait that ends with its first yield
    waiter.reset();
    int count = 0;
    for (bool spun = true; spun;) {
      spun = false;
      waiter.pause(
          nullptr, [&] { return spun = true; }, [] { return true; });
      count += spun ? 1 : 0;
    }
    return count;
  };
  // Which thread the scheduler takes is its own affair: the next yield, or one of many.
  const auto comes_to = [&](auto&& wanted) {
    for (int tries = 0; tries < 20000; ++tries)
      if (wanted(spins())) return true;
    return false;
  };
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop.load()) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(5);
      while (std::chrono::steady_clock::now() < end) {
      }
      ::sched_yield();
    }
  });
  CHECK(comes_to([](int count) { return count == 0; }));
  stop.store(true);
  other.join();
  CHECK(comes_to([](int count) { return count > 0; }));
  CHECK(::sched_setaffinity(0, sizeof before, &before) == 0);
}

TEST_CASE("after a call with an engine the next one without it waits as before") {
  Waiter waiter(1);
  waiter.expect(Waiter::Polls::engine);
  waiter.expect(Waiter::Polls::memory);
  int spins = 0;
  CHECK(waiter.pause(
            nullptr, [&] { return ++spins < 0; }, [] { return true; }) == Waiter::Next::poll);
  CHECK(spins == patience_of(Waiter::Polls::memory, 1).spins);
}
