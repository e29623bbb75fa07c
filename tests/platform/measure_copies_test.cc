// Measuring the host's links: plausible figures, in the time that was given.
#include "platform/host/measure_copies.h"

#include <catch2/catch.hpp>

using namespace sccl::host;

TEST_CASE("copies between threads are measured within the budget's order") {
  const auto start = std::chrono::steady_clock::now();
  const CopyMeasurement measured = measure_copies(2, std::chrono::milliseconds(200));
  // Generous: a busy machine may take a core away for a while.
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
  REQUIRE(measured.alone.size() >= 3);
  for (const CopyTime& one : measured.alone) CHECK(one.us > 0);
  CHECK(measured.alone.back().bytes > 1000 * measured.alone.front().bytes);
  CHECK(measured.all_gbytes_per_s > 0.01);
}
