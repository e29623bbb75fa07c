// How a writer of slots finds out whether its caches help the reader.
#include "kernels/host/messages/slot_stores.h"

#include <catch2/catch.hpp>

using sccl::kernels::SlotStores;

namespace {

constexpr std::uint64_t kBytes = 64 * 1024;

// Writes so often, and what is timed takes so long.
struct Writer {
  SlotStores stores;
  std::uint64_t cached_ns;
  std::uint64_t past_ns;
  int timed = 0;
  int streamed = 0;

  void write(int times, std::uint64_t bytes = kBytes, int destinations = 1) {
    timed = streamed = 0;
    for (int i = 0; i < times; ++i) {
      const SlotStores::Turn turn = stores.next(true);
      streamed += turn.streamed;
      timed += turn.timed;
      if (turn.timed) stores.took(turn.streamed ? past_ns : cached_ns, bytes, destinations);
    }
  }
};

}  // namespace

TEST_CASE("slots are written through the caches where that costs no more") {
  Writer near{{}, 2400, 3500};
  near.write(1000);
  CHECK(near.streamed < 1000 / 20);
  CHECK(near.timed > 0);
}

TEST_CASE("slots are written past the caches where lines are dear, after few writes") {
  Writer far{{}, 14700, 2700};
  far.write(150);
  far.write(1000);
  CHECK(far.streamed > 1000 - 1000 / 20);
}

TEST_CASE("a slot that is one of several places still shows what its lines cost") {
  Writer far{{}, 2700 * 3 + 12000, 2700 * 4};
  far.write(150, kBytes, 4);
  far.write(1000, kBytes, 4);
  CHECK(far.streamed > 1000 - 1000 / 20);
  Writer near{{}, 2700 * 3 + 2400, 2700 * 4};
  near.write(1000, kBytes, 4);
  CHECK(near.streamed < 1000 / 20);
}

TEST_CASE("a writer follows when cores change their distance, there and back") {
  Writer writer{{}, 2400, 3500};
  writer.write(500);
  writer.cached_ns = 14700;
  writer.write(250);
  writer.write(100);
  CHECK(writer.streamed > 90);
  writer.cached_ns = 2400;
  writer.write(250);
  writer.write(100);
  CHECK(writer.streamed < 10);
}

TEST_CASE("a way that keeps winning is compared ever more rarely") {
  Writer near{{}, 2400, 3500};
  near.write(300);
  CHECK(near.timed > 4);
  near.write(3000);
  CHECK(near.timed <= 2 * 3000 / 90);
}

TEST_CASE("one interrupted copy changes nothing") {
  Writer near{{}, 2400, 3500};
  near.write(20);
  int timed_cached = 0;
  while (timed_cached == 0) {
    const SlotStores::Turn turn = near.stores.next(true);
    if (turn.timed) near.stores.took(turn.streamed ? 3500 : 400000, kBytes, 1);
    timed_cached += turn.timed && !turn.streamed;
  }
  near.write(40);
  CHECK(near.streamed <= 2);  // the rest of the pair, and another pair's
}

TEST_CASE("copies that do more than fill one slot are not compared") {
  SlotStores stores;
  for (int i = 0; i < 1000; ++i) {
    const SlotStores::Turn turn = stores.next(false);
    CHECK_FALSE(turn.timed);
    CHECK_FALSE(turn.streamed);
  }
}
