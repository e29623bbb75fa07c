// Ranks of a reduction in the order of arrival, stepped by a test in an order of its own choice.
#pragma once

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "kernels/host/arrival/arrival_reduction.h"

namespace arrival_test {

using namespace sccl;
using namespace sccl::kernels;

constexpr std::size_t kElements = 1000;
constexpr std::size_t kSlice = 96;
constexpr std::size_t kSlices = (kElements + kSlice - 1) / kSlice;

// Form: makes `ranks` reductions that share memory; `form.of(rank)` is one of them.
template <typename Form>
class World {
 public:
  explicit World(int ranks) : ranks_(ranks), form_(ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      inputs_.emplace_back(kElements);
      outputs_.emplace_back(kElements);
    }
  }

  int ranks() const { return ranks_; }
  auto& of(int rank) { return form_.of(rank); }
  Form& form() { return form_; }
  std::vector<std::int32_t>& input(int rank) { return inputs_[static_cast<std::size_t>(rank)]; }
  std::vector<std::int32_t>& output(int rank) { return outputs_[static_cast<std::size_t>(rank)]; }

  ArrivalCall call(int rank, std::size_t elements = kElements) {
    return {DataType::int32,
            ReduceKernel::sum,
            input(rank).data(),
            elements,
            kSlice,
            1,
            {output(rank).data(), 0, elements}};
  }
  void begin(int rank, std::size_t elements = kElements) { of(rank).begin(call(rank, elements)); }
  // Until it waits for others, or is done.
  ArrivalReduction::Step run(int rank) {
    auto step = of(rank).step();
    while (step == ArrivalReduction::Step::moved) step = of(rank).step();
    return step;
  }
  // All ranks in turns, until all are done; false if nobody can go on.
  bool run_all() {
    for (bool all_done = false; !all_done;) {
      bool moves = false;
      all_done = true;
      for (int rank = 0; rank < ranks_; ++rank) {
        const auto step = of(rank).step();
        all_done = all_done && step == ArrivalReduction::Step::done;
        moves = moves || step != ArrivalReduction::Step::waits;
      }
      if (!moves) return false;
    }
    return true;
  }

  void fill(std::mt19937& random) {
    for (int rank = 0; rank < ranks_; ++rank) {
      for (auto& element : input(rank)) element = static_cast<std::int32_t>(random());
      std::fill(output(rank).begin(), output(rank).end(), 7);
    }
  }
  std::int32_t sum(std::size_t at) {
    std::uint32_t sum = 0;
    for (int rank = 0; rank < ranks_; ++rank) sum += static_cast<std::uint32_t>(input(rank)[at]);
    return static_cast<std::int32_t>(sum);
  }
  std::size_t wrong_elements(std::size_t elements = kElements) {
    std::size_t wrong = 0;
    for (std::size_t at = 0; at < elements; ++at)
      for (int rank = 0; rank < ranks_; ++rank) wrong += output(rank)[at] != sum(at) ? 1 : 0;
    return wrong;
  }
  std::uint64_t additions() {
    std::uint64_t all = 0;
    for (int rank = 0; rank < ranks_; ++rank) all += of(rank).additions();
    return all;
  }

 private:
  int ranks_;
  Form form_;
  std::vector<std::vector<std::int32_t>> inputs_, outputs_;
};

inline std::vector<int> in_order(int ranks) {
  std::vector<int> order(static_cast<std::size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

template <typename Form>
void calls_may_follow_one_another(const std::vector<std::size_t>& lengths) {
  std::mt19937 random(Catch::rngSeed());
  World<Form> world(5);
  for (const std::size_t elements : lengths) {
    world.fill(random);
    for (int rank = 0; rank < 5; ++rank) {
      world.begin(rank, elements);
      world.run(rank);
    }
    REQUIRE(world.run_all());
    CHECK(world.wrong_elements(elements) == 0);
  }
}

template <typename Form>
void ranks_take_the_part_that_they_want() {
  std::mt19937 random(Catch::rngSeed());
  World<Form> world(4);
  world.fill(random);
  const std::pair<std::size_t, std::size_t> parts[] = {
      {0, 0}, {0, kElements}, {100, 101}, {kSlice - 1, 5 * kSlice + 3}};
  for (int rank = 0; rank < 4; ++rank) {
    const auto [begin, end] = parts[rank];
    ArrivalCall call = world.call(rank);
    call.wanted.begin = begin;
    call.wanted.end = end;
    world.of(rank).begin(call);
    world.run(rank);
  }
  REQUIRE(world.run_all());
  for (int rank = 0; rank < 4; ++rank) {
    INFO("rank " << rank);
    const auto [begin, end] = parts[rank];
    for (std::size_t at = 0; at < end - begin; ++at) REQUIRE(world.output(rank)[at] == world.sum(begin + at));
    for (std::size_t at = end - begin; at < kElements; ++at) REQUIRE(world.output(rank)[at] == 7);
  }
}

// Calls of all lengths by threads that come at any time; in some of them only one rank wants the result.
template <typename Form>
void threads_may_come_at_any_time() {
  const unsigned seed = static_cast<unsigned>(Catch::rngSeed());
  INFO("seed " << seed);
  for (const int ranks : {2, 3, 5, 8}) {
    World<Form> world(ranks);
    std::mt19937 random(seed);
    world.fill(random);
    constexpr unsigned kCalls = 300;
    std::atomic<std::size_t> wrong{0};
    std::vector<std::int32_t> expected(kElements);
    for (std::size_t at = 0; at < kElements; ++at) expected[at] = world.sum(at);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        std::mt19937 own(seed + static_cast<unsigned>(rank));
        for (unsigned number = 1; number <= kCalls; ++number) {
          if (own() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 100));
          const std::size_t elements = number * 37 % kElements + 1;
          const bool is_reduce = number % 3 == 0;
          ArrivalCall call = world.call(rank, elements);
          const bool wants = !is_reduce || static_cast<int>(number) % ranks == rank;
          if (is_reduce) call.wanted.readers = ArrivalCall::Readers::only_this;
          if (!wants) call.wanted.end = 0;
          std::fill(world.output(rank).begin(), world.output(rank).end(), 7);
          world.of(rank).begin(call);
          while (world.run(rank) != ArrivalReduction::Step::done) std::this_thread::yield();
          const std::size_t got = wants ? elements : 0;
          if (std::memcmp(world.output(rank).data(), expected.data(), got * sizeof(std::int32_t)) != 0) ++wrong;
          if (std::any_of(world.output(rank).begin() + static_cast<long>(got), world.output(rank).end(),
                          [](std::int32_t element) { return element != 7; }))
            ++wrong;
        }
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
  }
}

}  // namespace arrival_test
