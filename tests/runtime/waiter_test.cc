#include "runtime/waiting/waiter.h"

#include <sched.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

using namespace sccl::runtime;

namespace {

constexpr int kCrowd = 100000;  // more ranks than any host has cores

// In one pause.
int spins_of(Waiter::Polls polls, int ranks_on_host) {
  Waiter waiter(ranks_on_host);
  waiter.expect(polls);
  int spins = 0;
  const auto ready = [&] { return ++spins < 0; };
  waiter.pause(nullptr, ready, [] { return true; });
  return spins;
}

}  // namespace

TEST_CASE("a thread that polls an engine spins fewer times before it yields") {
  CHECK(spins_of(Waiter::Polls::engine, 1) < spins_of(Waiter::Polls::memory, 1) / 4);
}

TEST_CASE("where ranks outnumber cores nobody spins") {
  CHECK(spins_of(Waiter::Polls::memory, kCrowd) == 0);
  CHECK(spins_of(Waiter::Polls::engine, kCrowd) == 0);
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
  CHECK(spins == spins_of(Waiter::Polls::memory, 1));
}
