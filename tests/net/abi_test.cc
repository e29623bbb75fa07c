// The plugins' structures have NCCL's layout. The figures come from NCCL's own headers (2.30.7), compiled for x86-64.
#include "net/plugin/abi.h"

#include <catch2/catch.hpp>
#include <cstddef>

using namespace sccl::net::abi;

TEST_CASE("the tables of every version have NCCL's size") {
  CHECK(sizeof(TableV6) == 136);
  CHECK(sizeof(TableV7) == 152);
  CHECK(sizeof(TableV8) == 152);
  CHECK(sizeof(TableV9) == 160);
  CHECK(sizeof(TableV10) == 160);
  CHECK(sizeof(TableV11) == 176);
  CHECK(sizeof(TableV12) == 176);
}

TEST_CASE("the properties of every version have NCCL's size") {
  CHECK(sizeof(PropertiesV6) == 48);
  CHECK(sizeof(PropertiesV7) == 56);
  CHECK(sizeof(PropertiesV8) == 64);
  CHECK(sizeof(PropertiesV9) == 104);
  CHECK(sizeof(PropertiesV11) == 112);
  CHECK(sizeof(PropertiesV12) == 128);
}

TEST_CASE("functions stand where NCCL looks for them") {
  CHECK(offsetof(TableV6, isend) == 80);
  CHECK(offsetof(TableV8, close_listener) == 128);
  CHECK(offsetof(TableV10, connect) == 40);
  CHECK(offsetof(TableV11, finalize) == 160);
  CHECK(offsetof(TableV12, test) == 104);
}
