// Memory that a peer names must be what it is said to be.
#include "platform/host/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "base/error.h"

using namespace sccl;

TEST_CASE("a segment is mapped by its descriptor") {
  const auto made = host::Segment::create(8192);
  made->data()[5000] = std::byte{7};
  const FileDescriptor copy(::dup(made->descriptor()));
  CHECK(host::Segment::map(copy, 8192)->data()[5000] == std::byte{7});
}

TEST_CASE("an ordinary file, and memory that can shrink, are not mapped for a segment") {
  char path[] = "/tmp/sccl-segment-test.XXXXXX";
  const FileDescriptor file(::mkstemp(path));
  ::unlink(path);
  REQUIRE(::ftruncate(file.get(), 8192) == 0);
  CHECK_THROWS_WITH(host::Segment::map(file, 8192), Catch::Contains("no sealed memory"));
  const FileDescriptor shrinkable(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(shrinkable.get(), 8192) == 0);
  CHECK_THROWS_WITH(host::Segment::map(shrinkable, 8192), Catch::Contains("no sealed memory"));
}
