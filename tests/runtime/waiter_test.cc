#include "runtime/waiting/waiter.h"

#include <catch2/catch.hpp>

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

TEST_CASE("after a call with an engine the next one without it waits as before") {
  Waiter waiter(1);
  waiter.expect(Waiter::Polls::engine);
  waiter.expect(Waiter::Polls::memory);
  int spins = 0;
  CHECK(waiter.pause(
            nullptr, [&] { return ++spins < 0; }, [] { return true; }) == Waiter::Next::poll);
  CHECK(spins == patience_of(Waiter::Polls::memory, 1).spins);
}
