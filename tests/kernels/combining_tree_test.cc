// A reduction over a fixed tree by whoever is there: the same bits whoever comes when, and how much is left to do after
// the last arrival.
#include "kernels/host/arrival/combining_tree.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <thread>

#include "arrival_forms.h"
#include "base/types.h"

using namespace arrival_test;

namespace {

using Step = ArrivalReduction::Step;

// `Places`: in the area of each rank. With few of them one call goes several rounds.
template <std::size_t Places = 2 * kSlices>
class Ranks {
 public:
  explicit Ranks(int ranks) : form_(ranks), ranks_(ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      inputs_.emplace_back(kElements);
      outputs_.emplace_back(kElements);
    }
  }

  int ranks() const { return ranks_; }
  CombiningTree& tree(int rank) { return form_.of(rank); }
  std::atomic<std::uint64_t>& count(std::size_t slot, int node) { return form_.count(slot, ranks_, node); }
  std::vector<float>& input(int rank) { return inputs_[static_cast<std::size_t>(rank)]; }
  std::vector<float>& output(int rank) { return outputs_[static_cast<std::size_t>(rank)]; }
  void begin(int rank, std::size_t elements = kElements) {
    tree(rank).begin({DataType::float32,
                      ReduceKernel::sum,
                      input(rank).data(),
                      elements,
                      kSlice,
                      1,
                      {output(rank).data(), 0, elements}});
  }
  // Until it waits for others, or is done.
  Step run(int rank) {
    auto step = tree(rank).step();
    while (step == Step::moved) step = tree(rank).step();
    return step;
  }

 private:
  Tree<Places> form_;
  int ranks_;
  std::vector<std::vector<float>> inputs_, outputs_;
};

// The tree's sum, by recursion.
template <typename World>
float sum_of(World& world, std::size_t at, int low, int high) {
  if (high - low == 1) return world.input(low)[at];
  int half = 1;
  while (2 * half < high - low) half *= 2;
  return sum_of(world, at, low, low + half) + sum_of(world, at, low + half, high);
}

template <typename World>
void fill(World& world, std::mt19937& random) {
  std::uniform_real_distribution<float> any(-1.0f, 1.0f);
  for (int rank = 0; rank < world.ranks(); ++rank)
    for (float& element : world.input(rank)) element = any(random);
}

template <typename World>
std::size_t wrong_elements(World& world, std::size_t elements = kElements) {
  std::size_t wrong = 0;
  for (std::size_t at = 0; at < elements; ++at) {
    const float expected = sum_of(world, at, 0, world.ranks());
    for (int rank = 0; rank < world.ranks(); ++rank)
      wrong += std::memcmp(&world.output(rank)[at], &expected, sizeof expected) != 0 ? 1 : 0;
  }
  return wrong;
}

int levels_of(int ranks) { return ranks == 1 ? 0 : static_cast<int>(std::ceil(std::log2(ranks))); }

}  // namespace

TEST_CASE("the bits are those of the tree in every order of arrival", "[combining]") {
  std::mt19937 random(Catch::rngSeed());
  INFO("seed " << Catch::rngSeed());
  for (const int ranks : {1, 2, 3, 4, 5}) {
    Ranks<> world(ranks);
    std::vector<int> order(static_cast<std::size_t>(ranks));
    std::iota(order.begin(), order.end(), 0);
    do {
      fill(world, random);
      for (const int rank : order) {
        world.begin(rank);
        const auto step = world.run(rank);
        CHECK(step == (rank == order.back() ? Step::done : Step::waits));
      }
      for (const int rank : order) CHECK(world.run(rank) == Step::done);
      CHECK(wrong_elements(world) == 0);
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST_CASE("every type and reduction gives the same bits in every order of arrival, payloads of NaN included",
          "[combining]") {
  std::mt19937 random(Catch::rngSeed());
  INFO("seed " << Catch::rngSeed());
  constexpr int kRanks = 8;
  constexpr std::size_t kBytes = 700;  // some of them after the last whole slice
  for (const DataType type : {DataType::float32, DataType::float64, DataType::float16, DataType::bfloat16,
                              DataType::float8e4m3, DataType::int32, DataType::uint8})
    for (const ReduceKernel kernel : {ReduceKernel::sum, ReduceKernel::prod, ReduceKernel::max}) {
      INFO("type " << static_cast<int>(type) << ", kernel " << static_cast<int>(kernel));
      LongTree form(kRanks);
      std::vector<std::vector<std::uint8_t>> inputs, outputs;
      for (int rank = 0; rank < kRanks; ++rank) {
        inputs.emplace_back(kBytes);
        outputs.emplace_back(kBytes);
        for (auto& byte : inputs.back()) byte = random() % 2 == 0 ? 0xff : static_cast<std::uint8_t>(random());
      }
      std::vector<int> order = in_order(kRanks);
      std::vector<std::uint8_t> first;
      for (int call = 0; call < 20; ++call) {
        if (call > 0) std::shuffle(order.begin(), order.end(), random);
        for (int turn = 0; turn < 2; ++turn)
          for (const int rank : order) {
            const auto at = static_cast<std::size_t>(rank);
            const std::size_t elements = kBytes / size_bytes(type);
            if (turn == 0)
              form.of(rank).begin(
                  {type, kernel, inputs[at].data(), elements, kSlice, 1, {outputs[at].data(), 0, elements}});
            while (form.of(rank).step() == Step::moved) continue;
          }
        if (call == 0) first = outputs[0];
        CHECK(std::count(outputs.begin(), outputs.end(), first) == kRanks);
      }
    }
}

TEST_CASE("after the last arrival no more than log2(ranks) additions are left, and all are done once", "[combining]") {
  std::mt19937 random(Catch::rngSeed());
  for (const int ranks : {2, 3, 4, 7, 8, 13, 16}) {
    Ranks<> world(ranks);
    for (int late = 0; late < ranks; ++late) {
      INFO(ranks << " ranks, rank " << late << " is late");
      fill(world, random);
      std::uint64_t before = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        if (rank == late) continue;
        world.begin(rank);
        CHECK(world.run(rank) == Step::waits);
        before += world.tree(rank).additions();
      }
      world.begin(late);
      CHECK(world.run(late) == Step::done);
      const std::uint64_t after = world.tree(late).additions();
      CHECK(after <= kSlices * static_cast<unsigned>(levels_of(ranks)));
      CHECK(before + after == kSlices * static_cast<unsigned>(ranks - 1));
      for (int rank = 0; rank < ranks; ++rank) CHECK(world.run(rank) == Step::done);
      CHECK(wrong_elements(world) == 0);
    }
  }
}

TEST_CASE("calls of different lengths may follow one another", "[combining]") {
  std::mt19937 random(Catch::rngSeed());
  Ranks<> world(5);
  for (const std::size_t elements : {1u, 1000u, 97u, 1u, 500u, 1000u, 96u}) {
    fill(world, random);
    for (int rank = 0; rank < 5; ++rank) {
      world.begin(rank, elements);
      world.run(rank);
    }
    for (int rank = 0; rank < 5; ++rank) CHECK(world.run(rank) == Step::done);
    CHECK(wrong_elements(world, elements) == 0);
  }
}

TEST_CASE("a rank takes the part of the result that it wants, and nothing else", "[combining]") {
  std::mt19937 random(Catch::rngSeed());
  Ranks<> world(4);
  fill(world, random);
  constexpr float kUntouched = 7;
  const std::pair<std::size_t, std::size_t> parts[] = {
      {0, 0}, {0, kElements}, {100, 101}, {kSlice - 1, 5 * kSlice + 3}};
  for (int rank = 0; rank < 4; ++rank) {
    const auto [begin, end] = parts[rank];
    std::fill(world.output(rank).begin(), world.output(rank).end(), kUntouched);
    world.tree(rank).begin({DataType::float32,
                            ReduceKernel::sum,
                            world.input(rank).data(),
                            kElements,
                            kSlice,
                            1,
                            {world.output(rank).data(), begin, end}});
    world.run(rank);
  }
  CHECK(world.tree(0).step() == Step::done);  // it wants nothing
  for (int rank = 0; rank < 4; ++rank) {
    INFO("rank " << rank);
    CHECK(world.run(rank) == Step::done);
    const auto [begin, end] = parts[rank];
    for (std::size_t at = 0; at < end - begin; ++at) REQUIRE(world.output(rank)[at] == sum_of(world, begin + at, 0, 4));
    for (std::size_t at = end - begin; at < kElements; ++at) REQUIRE(world.output(rank)[at] == kUntouched);
  }
}

TEST_CASE("a rank that wants nothing leaves at once, and waits when it is two calls ahead", "[combining]") {
  std::mt19937 random(Catch::rngSeed());
  Ranks<kSlices> world(3);  // in 2 places: 16 slots for 11 slices
  fill(world, random);
  const auto begin_without_result = [&](int rank) {
    world.tree(rank).begin(
        {DataType::float32, ReduceKernel::sum, world.input(rank).data(), kElements, kSlice, 1, {nullptr, 0, 0}});
    return world.run(rank);
  };
  CHECK(begin_without_result(1) == Step::done);
  CHECK(begin_without_result(1) == Step::waits);
  std::vector<float> first;
  for (int call = 0; call < 2; ++call) {
    for (int rank : {0, 2}) {
      world.begin(rank);
      world.run(rank);
    }
    CHECK(world.run(0) == Step::done);
    CHECK(world.run(1) == Step::done);
    CHECK(world.run(2) == Step::done);
    CHECK(world.output(0)[7] == sum_of(world, 7, 0, 3));
    CHECK((call == 0 || world.output(2) == first));
    first = world.output(0);
  }
}

TEST_CASE("a call that is longer than the slots of a tree goes round", "[combining]") {
  std::mt19937 random(Catch::rngSeed());
  for (const int ranks : {2, 3, 5, 8}) {
    Ranks<2> world(ranks);  // 3 or 4 slots for 11 slices
    for (int call = 0; call < 5; ++call) {
      fill(world, random);
      for (int rank = 0; rank < ranks; ++rank) world.begin(rank);
      CHECK(world.run(1) == Step::waits);
      CHECK(world.tree(1).additions() == 0);
      bool all_done = false;
      for (int turn = 0; turn < 100 && !all_done; ++turn) {
        all_done = true;
        for (int rank = 0; rank < ranks; ++rank) all_done = world.run(rank) == Step::done && all_done;
      }
      REQUIRE(all_done);
      CHECK(wrong_elements(world) == 0);
    }
  }
}

TEST_CASE("a rank whose neighbour is at work goes on with the next slice and comes back", "[combining]") {
  std::mt19937 random(Catch::rngSeed());
  Ranks<> world(4);
  fill(world, random);
  auto& count = world.count(0, 3);  // of ranks 2 and 3
  count.store(1);                   // rank 2 copies its operand
  world.begin(3);
  CHECK(world.run(3) == Step::waits);
  CHECK(count.load() == 3);  // it asks to be woken
  count.store(0);
  CHECK(world.run(3) == Step::waits);
  CHECK(count.load() == 4);
  for (int rank : {0, 1, 2}) {
    world.begin(rank);
    world.run(rank);
  }
  for (int rank = 0; rank < 4; ++rank) CHECK(world.run(rank) == Step::done);
  CHECK(wrong_elements(world) == 0);
}

TEST_CASE("threads that come at any time get the same bits, call after call", "[combining]") {
  const unsigned seed = static_cast<unsigned>(Catch::rngSeed());
  INFO("seed " << seed);
  for (const int ranks : {2, 3, 5, 8}) {
    Ranks<> world(ranks);
    std::mt19937 random(seed);
    fill(world, random);
    constexpr std::uint64_t kCalls = 200;
    std::atomic<std::size_t> wrong{0};
    std::vector<float> expected(kElements);
    for (std::size_t at = 0; at < kElements; ++at) expected[at] = sum_of(world, at, 0, ranks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        std::mt19937 own(seed + static_cast<unsigned>(rank));
        for (std::uint64_t number = 1; number <= kCalls; ++number) {
          if (own() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 100));
          world.begin(rank);
          while (world.run(rank) != Step::done) std::this_thread::yield();
          if (std::memcmp(world.output(rank).data(), expected.data(), kElements * sizeof(float)) != 0) ++wrong;
        }
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
  }
}
