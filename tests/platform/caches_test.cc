// What the processor is said to have.
#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>

#include "platform/host/caches.h"

TEST_CASE("the last cache is one cache of this machine, not the sum of all") {
  const std::size_t bytes = sccl::host::last_level_cache_bytes();
  CHECK(bytes >= 256 * 1024);
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size");
  std::size_t kib = 0;
  char unit = '\0';
  if (file >> kib >> unit && unit == 'K') CHECK(bytes == kib * 1024);
}
