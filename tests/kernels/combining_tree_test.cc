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

using namespace sccl;
using namespace sccl::kernels;

namespace {

constexpr std::size_t kElements = 1000;
constexpr std::size_t kSlice = 96;
constexpr std::size_t kSlices = (kElements + kSlice - 1) / kSlice;

class Ranks {
 public:
  explicit Ranks(int ranks)
      : counts_(std::make_unique<std::atomic<std::uint64_t>[]>(kSlices * static_cast<std::size_t>(ranks))),
        done_(std::make_unique<std::atomic<std::uint64_t>[]>(kSlices)),
        result_(kElements) {
    CombiningTreeMemory memory;
    for (int rank = 0; rank < ranks; ++rank) {
      areas_.emplace_back(kElements);
      inputs_.emplace_back(kElements);
      outputs_.emplace_back(kElements);
    }
    for (auto& area : areas_) memory.areas.push_back(reinterpret_cast<std::byte*>(area.data()));
    memory.result = reinterpret_cast<std::byte*>(result_.data());
    memory.counts = counts_.get();
    memory.done = done_.get();
    for (int rank = 0; rank < ranks; ++rank) trees_.emplace_back(memory, rank, ranks);
  }

  int ranks() const { return static_cast<int>(trees_.size()); }
  CombiningTree& tree(int rank) { return trees_[static_cast<std::size_t>(rank)]; }
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
  CombiningTree::Step run(int rank) {
    auto step = tree(rank).step();
    while (step == CombiningTree::Step::moved) step = tree(rank).step();
    return step;
  }

 private:
  std::unique_ptr<std::atomic<std::uint64_t>[]> counts_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> done_;
  std::vector<float> result_;
  std::vector<std::vector<float>> areas_, inputs_, outputs_;
  std::deque<CombiningTree> trees_;
};

// The tree's sum, by recursion.
float sum_of(Ranks& world, std::size_t at, int low, int high) {
  if (high - low == 1) return world.input(low)[at];
  int half = 1;
  while (2 * half < high - low) half *= 2;
  return sum_of(world, at, low, low + half) + sum_of(world, at, low + half, high);
}

void fill(Ranks& world, std::mt19937& random) {
  std::uniform_real_distribution<float> any(-1.0f, 1.0f);
  for (int rank = 0; rank < world.ranks(); ++rank)
    for (float& element : world.input(rank)) element = any(random);
}

std::size_t wrong_elements(Ranks& world, std::size_t elements = kElements) {
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
    Ranks world(ranks);
    std::vector<int> order(static_cast<std::size_t>(ranks));
    std::iota(order.begin(), order.end(), 0);
    do {
      fill(world, random);
      for (const int rank : order) {
        world.begin(rank);
        const auto step = world.run(rank);
        CHECK(step == (rank == order.back() ? CombiningTree::Step::done : CombiningTree::Step::waits));
      }
      for (const int rank : order) CHECK(world.run(rank) == CombiningTree::Step::done);
      CHECK(wrong_elements(world) == 0);
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST_CASE("after the last arrival no more than log2(ranks) additions are left, and all are done once", "[combining]") {
  std::mt19937 random(Catch::rngSeed());
  for (const int ranks : {2, 3, 4, 7, 8, 13, 16}) {
    Ranks world(ranks);
    for (int late = 0; late < ranks; ++late) {
      INFO(ranks << " ranks, rank " << late << " is late");
      fill(world, random);
      std::uint64_t before = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        if (rank == late) continue;
        world.begin(rank);
        CHECK(world.run(rank) == CombiningTree::Step::waits);
        before += world.tree(rank).additions();
      }
      world.begin(late);
      CHECK(world.run(late) == CombiningTree::Step::done);
      const std::uint64_t after = world.tree(late).additions();
      CHECK(after <= kSlices * static_cast<unsigned>(levels_of(ranks)));
      CHECK(before + after == kSlices * static_cast<unsigned>(ranks - 1));
      for (int rank = 0; rank < ranks; ++rank) CHECK(world.run(rank) == CombiningTree::Step::done);
      CHECK(wrong_elements(world) == 0);
    }
  }
}

TEST_CASE("calls of different lengths may follow one another", "[combining]") {
  std::mt19937 random(Catch::rngSeed());
  Ranks world(5);
  for (const std::size_t elements : {1u, 1000u, 97u, 1u, 500u, 1000u, 96u}) {
    fill(world, random);
    for (int rank = 0; rank < 5; ++rank) {
      world.begin(rank, elements);
      world.run(rank);
    }
    for (int rank = 0; rank < 5; ++rank) CHECK(world.run(rank) == CombiningTree::Step::done);
    CHECK(wrong_elements(world, elements) == 0);
  }
}

TEST_CASE("a rank takes the part of the result that it wants, and nothing else", "[combining]") {
  std::mt19937 random(Catch::rngSeed());
  Ranks world(4);
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
  CHECK(world.tree(0).step() == CombiningTree::Step::done);  // it wants nothing
  for (int rank = 0; rank < 4; ++rank) {
    INFO("rank " << rank);
    CHECK(world.run(rank) == CombiningTree::Step::done);
    const auto [begin, end] = parts[rank];
    for (std::size_t at = 0; at < end - begin; ++at) REQUIRE(world.output(rank)[at] == sum_of(world, begin + at, 0, 4));
    for (std::size_t at = end - begin; at < kElements; ++at) REQUIRE(world.output(rank)[at] == kUntouched);
  }
}

TEST_CASE("a rank that wants nothing leaves at once, and waits when it begins the next call too early", "[combining]") {
  std::mt19937 random(Catch::rngSeed());
  Ranks world(3);
  fill(world, random);
  const auto begin_without_result = [&](int rank) {
    world.tree(rank).begin(
        {DataType::float32, ReduceKernel::sum, world.input(rank).data(), kElements, kSlice, 1, {nullptr, 0, 0}});
    return world.run(rank);
  };
  CHECK(begin_without_result(1) == CombiningTree::Step::done);
  CHECK(begin_without_result(1) == CombiningTree::Step::waits);
  for (int rank : {0, 2}) {
    world.begin(rank);
    world.run(rank);
  }
  CHECK(world.run(0) == CombiningTree::Step::done);
  CHECK(world.run(1) == CombiningTree::Step::done);
  const std::vector<float> first = world.output(0);
  CHECK(first[7] == sum_of(world, 7, 0, 3));
  for (int rank : {0, 2}) {
    world.begin(rank);
    world.run(rank);
  }
  for (int rank = 0; rank < 3; ++rank) CHECK(world.run(rank) == CombiningTree::Step::done);
  CHECK(world.output(2) == first);
}

TEST_CASE("threads that come at any time get the same bits, call after call", "[combining]") {
  const unsigned seed = static_cast<unsigned>(Catch::rngSeed());
  INFO("seed " << seed);
  for (const int ranks : {2, 3, 5, 8}) {
    Ranks world(ranks);
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
          while (world.run(rank) != CombiningTree::Step::done) std::this_thread::yield();
          if (std::memcmp(world.output(rank).data(), expected.data(), kElements * sizeof(float)) != 0) ++wrong;
        }
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
  }
}
