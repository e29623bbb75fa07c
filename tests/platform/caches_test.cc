// What the processor is said to have.
#include "platform/host/caches.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>

TEST_CASE("the last cache is one cache of this machine, not the sum of all") {
  const std::size_t bytes = sccl::host::last_level_cache_bytes();
  CHECK(bytes >= 256 * 1024);
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size");
  std::size_t kib = 0;
  char unit = '\0';
  if (file >> kib >> unit && unit == 'K') CHECK(bytes == kib * 1024);
}

TEST_CASE("a cluster's cache keeps most of what fits it, one of dozens of cores no more than the ranks' own caches") {
  constexpr std::size_t kMiB = 1024 * 1024;
  using sccl::host::bytes_that_stay;
  CHECK(bytes_that_stay(32 * kMiB, kMiB / 2, 2) == 20 * kMiB);
  CHECK(bytes_that_stay(260 * kMiB, 2 * kMiB, 2) == 4 * kMiB);
  CHECK(bytes_that_stay(260 * kMiB, 2 * kMiB, 128) == 260 * kMiB / 8 * 5);
  CHECK(bytes_that_stay(260 * kMiB, 0, 2) == 260 * kMiB / 8 * 5);
  CHECK(bytes_that_stay(1) <= bytes_that_stay(1000));
}
