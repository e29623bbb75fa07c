// A call that finds no memory fails, and so does the group that it belongs to: no call of it is made.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>
#include <vector>

#include "nccl_shim/nccl.h"

namespace {

// How many allocations of this thread succeed before one fails; negative: all succeed.
thread_local long before_failure = -1;
thread_local bool failed = false;

// Makes the allocation fail that comes after so many others, while it lives.
class Shortage {
 public:
  explicit Shortage(long allocations) {
    failed = false;
    before_failure = allocations;
  }
  ~Shortage() { before_failure = -1; }
  Shortage(const Shortage&) = delete;
  Shortage& operator=(const Shortage&) = delete;
};

}  // namespace

// Of the whole program, the library included.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (before_failure >= 0 && before_failure-- == 0) {
    failed = true;
    throw std::bad_alloc();
  }
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

TEST_CASE("a group in which a call found no memory makes none of its calls, and the communicator goes on") {
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  REQUIRE(ncclCommInitRank(&comm, 1, id, 0) == ncclSuccess);
  std::vector<float> from(100, 1), to(100, 0);
  const auto sum = [&] { return ncclAllReduce(from.data(), to.data(), 100, ncclFloat, ncclSum, comm, nullptr); };
  bool enough = false;
  int shortages = 0;
  for (long allocations = 0; !enough; ++allocations) {
    INFO("after " << allocations << " allocations");
    ncclResult_t result = ncclSuccess;
    REQUIRE(ncclGroupStart() == ncclSuccess);
    {
      const Shortage shortage(allocations);
      result = sum();
      enough = !failed;
    }
    if (result == ncclSuccess) {
      CHECK(ncclGroupEnd() == ncclSuccess);
      continue;
    }
    ++shortages;
    CHECK(sum() == ncclSuccess);
    CHECK(ncclGroupEnd() == ncclSystemError);
    CHECK_THAT(ncclGetLastError(comm), Catch::Contains("memory"));
    CHECK(to[0] == 0);
  }
  CHECK(shortages > 0);
  CHECK(to[0] == 1);
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
}
