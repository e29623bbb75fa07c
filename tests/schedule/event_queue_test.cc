// Events come in order of time, and those of one time in the order in which they were added.
#include "schedule/simulation/event_queue.h"

#include <catch2/catch.hpp>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "base/splitmix.h"
#include "schedule/simulation/least_heap.h"

using namespace sccl;

TEST_CASE("events come in order of time, those of equal times in the order in which they were added") {
  std::mt19937 random(1);
  const auto below = [&](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
  for (int round = 0; round < 500; ++round) {
    const int times = 1 + below(300);                  // few times collide often
    const double scales[] = {1, 1000003, 1, 1e13, 3};  // 1e13: sums are rounded
    const double scale = scales[round % 5];
    const double last = round % 7 == 0 ? 500 : std::numeric_limits<double>::infinity();
    schedule::EventQueue<int> queue;
    std::multimap<double, int> expected;
    int added = 0;
    const auto add = [&](double now) {
      const double time = now + below(times) * scale;
      queue.add(time, added);
      expected.emplace(time, added++);
    };
    for (int i = below(50); i >= 0; --i) add(0);
    int left = below(2000);
    bool right = true;
    const bool ended = queue.run_until(last, [&](double now, int event) {
      right = right && !expected.empty() && *expected.begin() == std::pair<const double, int>(now, event);
      if (!expected.empty()) expected.erase(expected.begin());
      for (int more = below(3); more > 0 && left > 0; --more, --left) add(now);
    });
    INFO("round " << round);
    REQUIRE(right);
    CHECK(ended == expected.empty());
    if (!ended) CHECK(expected.begin()->first > last);
  }
}

TEST_CASE("events that come never come last, and end") {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  schedule::EventQueue<int> queue;
  for (const auto& [time, event] : {std::pair(kNever, 3), {0.0, 1}, {kNever, 4}, {1e9, 2}}) queue.add(time, event);
  std::vector<int> seen;
  CHECK(queue.run_until(kNever, [&](double now, int event) {
    seen.push_back(event);
    if (event == 3) queue.add(now, 5);
  }));
  CHECK(seen == std::vector<int>{1, 2, 3, 4, 5});
}

TEST_CASE("many events of one long day come in order") {
  // One far event makes days long; all others come within the first of them.
  schedule::EventQueue<int> queue;
  queue.add(0, 0);
  queue.add(1e12, -1);
  double before = 0;
  int left = 100000;
  std::uint64_t random = 0;
  bool right = true;
  CHECK(queue.run_until(std::numeric_limits<double>::infinity(), [&](double now, int event) {
    right = right && now >= before && (event >= 0 || left == 0);
    before = now;
    for (int more = 0; more < 2 && left > 0; ++more)
      if (random = splitmix64(random); more == 0 || random % 4 == 0)
        queue.add(now + static_cast<double>(random % 1000), left--);
  }));
  CHECK(right);
  CHECK(before == 1e12);
}

TEST_CASE("a heap gives what was put in, the least first, also where more is put in between") {
  schedule::LeastHeap<std::uint64_t> heap;
  std::multiset<std::uint64_t> inside;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    const std::uint64_t random = splitmix64(i);
    if (random % 3 != 0 || inside.empty()) {
      heap.push(random % 1000);
      inside.insert(random % 1000);
      continue;
    }
    REQUIRE(heap.top() == *inside.begin());
    heap.pop();
    inside.erase(inside.begin());
  }
  for (; !inside.empty(); inside.erase(inside.begin()), heap.pop()) REQUIRE(heap.top() == *inside.begin());
  CHECK(heap.empty());
}
