// A reduction by the rank that comes first: who leads, and how much is left to do after the last arrival.
#include "arrival_forms.h"
#include "arrival_world.h"

using namespace arrival_test;

namespace {

using Step = ArrivalReduction::Step;

}  // namespace

TEST_CASE("the first rank leads in every order of arrival", "[leader]") {
  std::mt19937 random(Catch::rngSeed());
  INFO("seed " << Catch::rngSeed());
  for (const int ranks : {2, 3, 4, 5, 6}) {
    World<Leader> world(ranks);
    std::vector<int> order = in_order(ranks);
    do {
      world.fill(random);
      for (std::size_t place = 0; place < order.size(); ++place) {
        const int rank = order[place];
        world.begin(rank);
        CHECK(world.run(rank) == Step::waits);
        CHECK(world.of(rank).place() == static_cast<int>(place));
        // The leader adds what is there as it comes.
        CHECK(world.run(order.front()) == (rank == order.back() ? Step::done : Step::waits));
        CHECK(world.of(order.front()).additions() == kSlices * place);
        if (place > 0) CHECK(world.of(rank).additions() == 0);
      }
      for (const int rank : order) CHECK(world.run(rank) == Step::done);
      CHECK(world.wrong_elements() == 0);
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST_CASE("a leader adds all operands that are there in one pass", "[leader]") {
  std::mt19937 random(Catch::rngSeed());
  World<Leader> world(4);
  world.fill(random);
  for (int rank = 0; rank < 4; ++rank) {
    world.begin(rank, kSlice);
    world.of(rank).step();  // the role
  }
  for (int rank = 1; rank < 4; ++rank) world.run(rank);
  CHECK(world.of(0).step() == Step::moved);
  CHECK(world.of(0).additions() == 3);
  CHECK(world.of(0).ended_slices() == 1);
  REQUIRE(world.run_all());
  CHECK(world.wrong_elements(kSlice) == 0);
}

TEST_CASE("a rank wakes its leader, and the leader wakes all", "[leader]") {
  std::mt19937 random(Catch::rngSeed());
  World<Leader> world(3);
  world.fill(random);
  for (int rank : {2, 0, 1}) {
    world.begin(rank, kSlice);
    world.run(rank);
    CHECK(world.of(rank).take_news().rank == (rank == 2 ? ArrivalReduction::News::kNobody : 2));
  }
  world.run(2);
  CHECK(world.of(2).take_news().rank == ArrivalReduction::News::kEverybody);
}

TEST_CASE("a rank binds no role before the last call's leader has ended", "[leader]") {
  std::mt19937 random(Catch::rngSeed());
  World<Leader> world(3);
  world.fill(random);
  const auto begin_without_result = [&](int rank) {
    ArrivalCall call = world.call(rank);
    call.wanted.end = 0;
    world.of(rank).begin(call);
    return world.run(rank);
  };
  CHECK(begin_without_result(1) == Step::waits);  // it leads
  CHECK(begin_without_result(2) == Step::done);   // it wants nothing
  CHECK(begin_without_result(2) == Step::waits);
  CHECK(world.of(2).place() == -1);
  CHECK(begin_without_result(0) == Step::done);
  CHECK(world.run(1) == Step::done);
  CHECK(world.run(2) == Step::waits);
  CHECK(world.of(2).place() == 0);
  for (int rank : {0, 1}) world.begin(rank);
  REQUIRE(world.run_all());
  for (std::size_t at = 0; at < kElements; ++at) REQUIRE(world.output(1)[at] == world.sum(at));
}

TEST_CASE("calls under leaders may have different lengths", "[leader]") {
  calls_may_follow_one_another<Leader>({1, 1000, 97, 1, 500, 1000, 96});
}

TEST_CASE("ranks under a leader take the part of the result that they want", "[leader]") {
  ranks_take_the_part_that_they_want<Leader>();
}

TEST_CASE("threads under a leader may come at any time, call after call", "[leader]") {
  threads_may_come_at_any_time<Leader>();
}
