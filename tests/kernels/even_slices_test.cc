// Slices of a long chunk are equally long.
#include "kernels/program/even_slices.h"

#include <catch2/catch.hpp>

using namespace sccl;
using kernels::even_slice;

TEST_CASE("a chunk that is a little longer than a slice is cut into halves") {
  CHECK(even_slice(139810, 131072, 1) == 70144);  // from 69905 up to a multiple of 512 bytes
  CHECK(even_slice(139810, 131072, 4) == 70016);
  CHECK(even_slice(3 * 131072, 131072, 1) == 131072);
}

TEST_CASE("a chunk of one slice is not cut, nor are there more slices than of the usual length") {
  for (const device::u64 element_bytes : {1, 2, 4, 8})
    for (const device::u64 most : {64, 100, 512, 4096, 31500})
      for (device::u64 longest = 1; longest < 5 * most; longest += 7) {
        const device::u64 slice = even_slice(longest, most, element_bytes);
        REQUIRE(slice >= 1);
        REQUIRE(slice <= most);
        REQUIRE((longest + slice - 1) / slice == (longest + most - 1) / most);
      }
}
