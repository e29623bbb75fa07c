// How many blocks a rank's kernels take on a device, and whether these may be wide.
#include "runtime/settings/device_blocks.h"

#include <catch2/catch.hpp>

using namespace sccl::runtime;

TEST_CASE("kernels of four communicators fit on a device in wide blocks, of two in any case") {
  for (const int multiprocessors : {1, 8, 30, 46, 80, 108, 132, 148, 304})
    for (const int ranks : {1, 2, 3, 4, 8})
      for (const int most : {1, 8, 24, 64}) {
        CAPTURE(multiprocessors, ranks, most);
        const int blocks = blocks_of_rank(multiprocessors, ranks, most);
        CHECK(blocks >= 1);
        CHECK(blocks <= most);
        if (multiprocessors < ranks) continue;
        CHECK(blocks * ranks <= multiprocessors);  // two usual blocks share a multiprocessor
        if (may_be_wide(blocks, multiprocessors, ranks)) CHECK(4 * blocks * ranks <= multiprocessors);
      }
}

TEST_CASE("a rank alone keeps its blocks, ranks that share a device take fewer where these may be wide") {
  CHECK(blocks_of_rank(132, 1, 24) == 24);
  CHECK(may_be_wide(24, 132, 1));
  CHECK(blocks_of_rank(80, 1, 24) == 24);
  CHECK(!may_be_wide(24, 80, 1));
  CHECK(blocks_of_rank(132, 2, 24) == 16);
  CHECK(may_be_wide(16, 132, 2));
  CHECK(blocks_of_rank(132, 2, 64) == 64);  // asked for
  CHECK(blocks_of_rank(132, 8, 24) == 16);  // wide ones would be too few
  CHECK(!may_be_wide(16, 132, 8));
}
