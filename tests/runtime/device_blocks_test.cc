// How many blocks a rank's kernels take on a device, and whether these may be wide.
#include "runtime/settings/device_blocks.h"

#include <catch2/catch.hpp>

using namespace sccl::runtime;

TEST_CASE("kernels of two communicators fit on a device, of which one may have wide blocks") {
  for (const int multiprocessors : {4, 8, 30, 46, 80, 108, 132, 148, 304})
    for (const int ranks : {1, 2, 3, 4, 8})
      for (const int most : {1, 8, 24, 64}) {
        CAPTURE(multiprocessors, ranks, most);
        const int blocks = blocks_of_rank(multiprocessors, ranks, most);
        CHECK(blocks >= 1);
        CHECK(blocks <= most);
        if (4 * ranks > 3 * multiprocessors) continue;  // more ranks than a device can have
        // Each of these blocks leaves a half of its multiprocessor to other usual ones, and none to a wide one.
        const int free = multiprocessors - blocks * ranks;
        for (const int other : {1, 8, 24, 64}) {
          const int wide = blocks_of_rank(multiprocessors, 1, other);
          if (may_be_wide(wide, multiprocessors, 1)) CHECK(wide <= free);
        }
      }
}

TEST_CASE("only a rank that has its device for itself has wide blocks") {
  CHECK(blocks_of_rank(132, 1, 24) == 24);
  CHECK(may_be_wide(24, 132, 1));
  CHECK(!may_be_wide(24, 80, 1));
  CHECK(!may_be_wide(1, 132, 2));
  CHECK(blocks_of_rank(132, 1, 64) == 64);
  CHECK(blocks_of_rank(132, 2, 24) == 24);
  CHECK(blocks_of_rank(132, 8, 24) == 12);
}
