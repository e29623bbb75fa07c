// The lane that is free first is found as by looking at all of them, whether messages leave their lanes in turn or not.
#include "schedule/simulation/lane_times.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "base/splitmix.h"

using namespace sccl;

TEST_CASE("the lane that is free first is found whether messages leave their lanes in turn or not") {
  for (std::uint64_t round = 0; round < 200; ++round) {
    const int count = 1 + static_cast<int>(round % 7);
    const bool one_length = round % 2 == 0;
    schedule::LaneTimes lanes;
    lanes.add(3);
    const int group = lanes.add(count);
    std::vector<double> expected(static_cast<std::size_t>(count), 0);
    double now = 0;
    for (std::uint64_t message = 0; message < 300; ++message) {
      const std::uint64_t random = splitmix64(round * 1000 + message);
      now += static_cast<double>(random % 4);
      const double length = one_length ? 9 : static_cast<double>(random / 4 % 20);
      const auto least = std::min_element(expected.begin(), expected.end());
      const int lane = lanes.first(group);
      INFO("round " << round << ", message " << message);
      REQUIRE(lanes.free(group, lane) == *least);
      const double until = std::max(now, *least) + length;
      lanes.take(group, lane, until);
      *least = until;
    }
  }
}
