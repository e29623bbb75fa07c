// A reduction along a chain in the order of arrival: right in every order, how much is left to do after the last
// arrival, who led, and what happens when a rank meets another one at work.
#include "arrival_forms.h"
#include "arrival_world.h"

using namespace arrival_test;

namespace {

using Step = ArrivalReduction::Step;

}  // namespace

TEST_CASE("a chain is right in every order of arrival; the first leads, the last has one addition left", "[chain]") {
  std::mt19937 random(Catch::rngSeed());
  INFO("seed " << Catch::rngSeed());
  for (const int ranks : {2, 3, 4, 5, 6}) {
    World<LongChain> world(ranks);
    std::vector<int> order = in_order(ranks);
    do {
      world.fill(random);
      for (const int rank : order) {
        world.begin(rank);
        CHECK(world.run(rank) == (rank == order.back() ? Step::done : Step::waits));
        CHECK(world.of(rank).led_slices() == (rank == order.front() ? kSlices : 0));
        CHECK(world.of(rank).additions() == (rank == order.front() ? 0 : kSlices));
        CHECK(world.of(rank).ended_slices() == (rank == order.back() ? kSlices : 0));
      }
      for (const int rank : order) CHECK(world.run(rank) == Step::done);
      CHECK(world.wrong_elements() == 0);
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST_CASE("of the additions of n ranks a chain does n - 2 of n - 1 before the one that is late", "[chain]") {
  std::mt19937 random(Catch::rngSeed());
  for (const int ranks : {2, 3, 4, 8, 13, 16}) {
    World<LongChain> world(ranks);
    for (int late = 0; late < ranks; ++late) {
      world.fill(random);
      for (int rank = 0; rank < ranks; ++rank) {
        if (rank == late) continue;
        world.begin(rank);
        CHECK(world.run(rank) == Step::waits);
      }
      CHECK(world.additions() - world.of(late).additions() == kSlices * static_cast<unsigned>(ranks - 2));
      world.begin(late);
      CHECK(world.run(late) == Step::done);
      CHECK(world.of(late).additions() == kSlices);
      REQUIRE(world.run_all());
      CHECK(world.wrong_elements() == 0);
    }
  }
}

TEST_CASE("a call that is longer than the slots goes round", "[chain]") {
  std::mt19937 random(Catch::rngSeed());
  World<ShortChain> world(3);  // 3 slots for 11 slices
  for (int call = 0; call < 5; ++call) {
    world.fill(random);
    for (int rank = 0; rank < 3; ++rank) world.begin(rank);
    CHECK(world.run(1) == Step::waits);
    CHECK(world.of(1).led_slices() == 3);  // a round, and no more before the others come
    REQUIRE(world.run_all());
    CHECK(world.wrong_elements() == 0);
  }
}

TEST_CASE("a rank that meets another one at work goes on with the next slice and comes back", "[chain]") {
  std::mt19937 random(Catch::rngSeed());
  World<LongChain> world(2);
  world.fill(random);
  world.form().word(0).store(1);  // another rank holds the first slice
  world.begin(0);
  CHECK(world.run(0) == Step::waits);
  CHECK(world.of(0).led_slices() == kSlices - 1);
  CHECK(world.form().word(0).load() == 3);  // it asks to be woken
  world.form().word(0).store(0);
  CHECK(world.run(0) == Step::waits);
  CHECK(world.of(0).led_slices() == kSlices);
  world.begin(1);
  CHECK(world.run(1) == Step::done);
  CHECK(world.run(0) == Step::done);
  CHECK(world.wrong_elements() == 0);
}

TEST_CASE("whoever has been at work wakes a rank that waits for the slice", "[chain]") {
  std::mt19937 random(Catch::rngSeed());
  World<LongChain> world(3);
  world.fill(random);
  world.begin(0, kSlice);
  world.form().word(0).store(2);  // somebody waits
  world.of(0).step();
  CHECK(world.of(0).take_news().rank == ArrivalReduction::News::kEverybody);
  CHECK(world.of(0).take_news().rank == ArrivalReduction::News::kNobody);
  world.begin(1, kSlice);
  world.of(1).step();
  CHECK(world.of(1).take_news().rank == ArrivalReduction::News::kNobody);  // nobody waits for a sum
  world.begin(2, kSlice);
  world.of(2).step();
  CHECK(world.of(2).take_news().rank == ArrivalReduction::News::kEverybody);  // all wait for the result
}

TEST_CASE("the result of a Reduce goes straight to a root that comes last", "[chain]") {
  std::mt19937 random(Catch::rngSeed());
  World<LongChain> world(3);
  world.fill(random);
  for (int rank : {0, 1}) {
    ArrivalCall call = world.call(rank);
    call.wanted.end = 0;
    world.of(rank).begin(call);
    CHECK(world.run(rank) == Step::done);
  }
  ArrivalCall call = world.call(2);
  call.wanted.readers = ArrivalCall::Readers::only_this;
  world.of(2).begin(call);
  for (std::size_t step = 0; step < kSlices; ++step) world.of(2).step();  // no slice is copied afterwards
  for (std::size_t at = 0; at < kElements; ++at) REQUIRE(world.output(2)[at] == world.sum(at));
  CHECK(world.run(2) == Step::done);
}

TEST_CASE("chains of different lengths may follow one another", "[chain]") {
  calls_may_follow_one_another<LongChain>({1, 1000, 97, 1, 500, 1000, 96});
  calls_may_follow_one_another<ShortChain>({1, 1000, 97, 1, 500, 1000, 96});
}

TEST_CASE("ranks of a chain take the part of the result that they want", "[chain]") {
  ranks_take_the_part_that_they_want<LongChain>();
  ranks_take_the_part_that_they_want<ShortChain>();
}

TEST_CASE("threads of a chain may come at any time, call after call", "[chain]") {
  threads_may_come_at_any_time<LongChain>();
  threads_may_come_at_any_time<ShortChain>();
}

TEST_CASE("a chain adds floats in the order of arrival", "[chain]") {
  std::mt19937 random(Catch::rngSeed());
  INFO("seed " << Catch::rngSeed());
  constexpr int kRanks = 5;
  World<LongChain> world(kRanks);
  std::vector<std::vector<float>> inputs(kRanks, std::vector<float>(kElements));
  std::vector<float> output(kElements);
  for (auto& input : inputs)
    for (float& element : input) element = std::uniform_real_distribution<float>(-1, 1)(random);
  std::vector<int> order = in_order(kRanks);
  for (int times = 0; times < 20; ++times) {
    std::shuffle(order.begin(), order.end(), random);
    for (const int rank : order) {
      ArrivalCall call = world.call(rank);
      call.type = DataType::float32;
      call.input = inputs[static_cast<std::size_t>(rank)].data();
      call.wanted.output = output.data();
      if (rank != 0) call.wanted.end = 0;
      world.of(rank).begin(call);
      world.run(rank);
    }
    REQUIRE(world.run_all());
    for (std::size_t at = 0; at < kElements; ++at) {
      float sum = inputs[static_cast<std::size_t>(order[0])][at];
      for (std::size_t place = 1; place < kRanks; ++place) sum += inputs[static_cast<std::size_t>(order[place])][at];
      REQUIRE(output[at] == sum);
    }
  }
}
