// Degenerate and exotic calls: nothing to do, one rank, odd addresses, huge counts,
// reductions that are gone, communicators that go in any order, processes that just end.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>

#include "world.h"

using namespace api_test;

namespace {

std::string describe(const char* what, ncclResult_t result) {
  return std::string(what) + ": " + ncclGetErrorString(result) + ": " + ncclGetLastError(nullptr);
}

// Every collective once, with `count` elements of NULL buffers.
std::string all_of_nothing(ncclComm_t comm) {
  const ncclResult_t results[] = {
      ncclAllReduce(nullptr, nullptr, 0, ncclFloat32, ncclSum, comm, nullptr),
      ncclReduce(nullptr, nullptr, 0, ncclFloat32, ncclSum, 0, comm, nullptr),
      ncclBroadcast(nullptr, nullptr, 0, ncclFloat32, 0, comm, nullptr),
      ncclBcast(nullptr, 0, ncclFloat32, 0, comm, nullptr),
      ncclAllGather(nullptr, nullptr, 0, ncclFloat32, comm, nullptr),
      ncclReduceScatter(nullptr, nullptr, 0, ncclFloat32, ncclSum, comm, nullptr),
      ncclAlltoAll(nullptr, nullptr, 0, ncclFloat32, comm, nullptr),
      ncclGather(nullptr, nullptr, 0, ncclFloat32, 0, comm, nullptr),
      ncclScatter(nullptr, nullptr, 0, ncclFloat32, 0, comm, nullptr),
  };
  for (const ncclResult_t result : results)
    if (result != ncclSuccess) return describe("nothing", result);
  return "";
}

}  // namespace

TEST_CASE("zero elements: no effect, no meeting of ranks, NULL buffers are fine") {
  CHECK(failures(run_world(Mode::threads, 3, [](int rank, ncclComm_t comm) -> std::string {
          // Only one rank calls: nobody is waited for.
          return rank == 1 ? all_of_nothing(comm) : "";
        })) == "");
}

TEST_CASE("zero elements sent still meet their receiver") {
  CHECK(failures(run_world(Mode::threads, 2, [](int rank, ncclComm_t comm) -> std::string {
          const ncclResult_t result = rank == 0 ? ncclSend(nullptr, 0, ncclFloat32, 1, comm, nullptr)
                                                : ncclRecv(nullptr, 0, ncclFloat32, 0, comm, nullptr);
          return result == ncclSuccess ? "" : describe("transfer", result);
        })) == "");
}

TEST_CASE("buffers that a rank does not use may be NULL") {
  CHECK(
      failures(run_world(Mode::threads, 3, [](int rank, ncclComm_t comm) -> std::string {
        const int root = 1;
        const bool is_root = rank == root;
        std::vector<float> mine(100, static_cast<float>(rank + 1));
        std::vector<float> all(300, -1);
        if (auto r =
                ncclReduce(mine.data(), is_root ? all.data() : nullptr, 100, ncclFloat32, ncclSum, root, comm, nullptr);
            r != ncclSuccess)
          return describe("Reduce", r);
        if (is_root && (all[0] != 6 || all[99] != 6)) return "Reduce is wrong";
        if (auto r = ncclGather(mine.data(), is_root ? all.data() : nullptr, 100, ncclFloat32, root, comm, nullptr);
            r != ncclSuccess)
          return describe("Gather", r);
        if (is_root && (all[0] != 1 || all[100] != 2 || all[299] != 3)) return "Gather is wrong";
        if (auto r = ncclScatter(is_root ? all.data() : nullptr, mine.data(), 100, ncclFloat32, root, comm, nullptr);
            r != ncclSuccess)
          return describe("Scatter", r);
        if (mine[50] != static_cast<float>(rank + 1)) return "Scatter is wrong";
        if (auto r = ncclBroadcast(is_root ? mine.data() : nullptr, all.data(), 100, ncclFloat32, root, comm, nullptr);
            r != ncclSuccess)
          return describe("Broadcast", r);
        return all[0] == 2 && all[99] == 2 ? "" : "Broadcast is wrong";
      })) == "");
}

TEST_CASE("one rank: a copy, or the scaling that the reduction asks for, also inside a group") {
  ncclComm_t comm = nullptr;
  REQUIRE(ncclCommInitAll(&comm, 1, nullptr) == ncclSuccess);
  CHECK(all_of_nothing(comm) == "");
  const float in[3] = {1, 2, 3};
  float out[3] = {};
  float factor = 2.5f;
  ncclRedOp_t scaled;
  REQUIRE(ncclRedOpCreatePreMulSum(&scaled, &factor, ncclFloat32, ncclScalarHostImmediate, comm) == ncclSuccess);
  ncclGroupStart();
  CHECK(ncclAllReduce(in, out, 3, ncclFloat32, scaled, comm, nullptr) == ncclSuccess);
  CHECK(ncclRedOpDestroy(scaled, comm) == ncclSuccess);  // before the end of the group, as PyTorch does
  CHECK(ncclGroupEnd() == ncclSuccess);
  CHECK(out[2] == 7.5f);
  CHECK(ncclAllReduce(in, out, 3, ncclFloat32, ncclAvg, comm, nullptr) == ncclSuccess);
  CHECK(out[2] == 3);
  CHECK(ncclAlltoAll(in, out, 3, ncclFloat32, comm, nullptr) == ncclSuccess);
  CHECK(ncclReduceScatter(in, out, 3, ncclFloat32, ncclMax, comm, nullptr) == ncclSuccess);
  CHECK(std::memcmp(in, out, sizeof in) == 0);
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("a device scalar is read when the data is") {
  CHECK(failures(run_world(Mode::threads, 2, [](int rank, ncclComm_t comm) -> std::string {
          float scalar = 100;
          float value = 1;
          ncclRedOp_t op;
          if (ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat32, ncclScalarDevice, comm) != ncclSuccess)
            return "create";
          ncclGroupStart();
          ncclAllReduce(&value, &value, 1, ncclFloat32, op, comm, nullptr);
          scalar = static_cast<float>(rank + 2);
          if (auto r = ncclGroupEnd(); r != ncclSuccess) return describe("end", r);
          ncclRedOpDestroy(op, comm);
          return value == 5 ? "" : "got " + std::to_string(value);
        })) == "");
}

TEST_CASE("element alignment is enough") {
  CHECK(failures(run_world(Mode::threads, 3, [](int rank, ncclComm_t comm) -> std::string {
          for (const std::size_t count : {7u, 5000u, 200000u})
            for (const std::size_t shift : {1u, 2u, 3u}) {
              std::vector<std::uint16_t> raw(3 * count + 16);
              std::uint16_t* in = raw.data() + shift;
              std::vector<std::uint16_t> gathered(3 * count + 16);
              for (std::size_t i = 0; i < count; ++i) in[i] = static_cast<std::uint16_t>(rank * 7 + i);
              std::uint16_t* out = gathered.data() + 4 - shift;
              if (auto r = ncclAllGather(in, out, count, ncclBfloat16, comm, nullptr); r != ncclSuccess)
                return describe("AllGather", r);
              for (std::size_t i = 0; i < 3 * count; ++i)
                if (out[i] != static_cast<std::uint16_t>(i / count * 7 + i % count))
                  return "wrong at " + std::to_string(i);
            }
          return "";
        })) == "");
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)  // which need a multiple of the 4 GB
TEST_CASE("more than 2^31 elements", "[slow]") {
  constexpr std::size_t kCount = (std::size_t{1} << 31) + 4099;
  CHECK(failures(run_world(Mode::threads, 2, [](int rank, ncclComm_t comm) -> std::string {
          void* memory =
              ::mmap(nullptr, kCount, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
          if (memory == MAP_FAILED) return "";  // a machine too small for it
          auto* bytes = static_cast<std::int8_t*>(memory);
          // Marks at both ends, beyond 2^31, and in the middle; the rest stays zero.
          const std::size_t places[] = {0, 1, (std::size_t{1} << 31) - 1, std::size_t{1} << 31, kCount / 2, kCount - 1};
          for (std::size_t i = 0; i < 6; ++i)
            if (rank == 0) bytes[places[i]] = static_cast<std::int8_t>(i + 1);
          std::string failure;
          if (auto r = ncclBroadcast(bytes, bytes, kCount, ncclInt8, 0, comm, nullptr); r != ncclSuccess)
            failure = describe("Broadcast", r);
          for (std::size_t i = 0; i < 6; ++i)
            if (bytes[places[i]] != static_cast<std::int8_t>(i + 1))
              failure += "wrong at " + std::to_string(places[i]) + ". ";
          ::munmap(memory, kCount);
          return failure;
        })) == "");
}

#endif

TEST_CASE("communicators go in any order, also while others of the process work") {
  CHECK(failures(run_bare_world(Mode::threads, 3, [](int rank, const ncclUniqueId& id) -> std::string {
          ncclComm_t first = nullptr;
          if (auto r = ncclCommInitRank(&first, 3, id, rank); r != ncclSuccess) return describe("init", r);
          ncclComm_t others[4] = {};
          for (ncclComm_t& other : others)
            if (auto r = ncclCommSplit(first, 0, rank, &other, nullptr); r != ncclSuccess) return describe("split", r);
          float value = 1;
          for (int i = 0; i < 4; ++i) {
            const int victim = (i * 3 + rank) % 4;  // another one at each rank
            if (ncclCommDestroy(others[victim]) != ncclSuccess) return "destroy";
            if (auto r = ncclAllReduce(&value, &value, 1, ncclFloat32, ncclMax, first, nullptr); r != ncclSuccess)
              return describe("AllReduce", r);
          }
          return ncclCommDestroy(first) == ncclSuccess ? "" : "destroy";
        })) == "");
}

TEST_CASE("a process may end without destroying its communicator", "[processes]") {
  CHECK(failures(run_bare_world(Mode::processes, 3, [](int rank, const ncclUniqueId& id) -> std::string {
          ncclComm_t comm = nullptr;
          if (auto r = ncclCommInitRank(&comm, 3, id, rank); r != ncclSuccess) return describe("init", r);
          float value = 1;
          if (auto r = ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr); r != ncclSuccess)
            return describe("AllReduce", r);
          return value == 3 ? "" : "wrong";
        })) == "");
}

TEST_CASE("a forked child may end, and may make communicators of its own", "[processes]") {
  CHECK(failures(run_world(Mode::processes, 2, [](int, ncclComm_t comm) -> std::string {
          float value = 1;
          ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr);
          const pid_t child = ::fork();
          if (child == 0) {
            ncclComm_t own = nullptr;
            float one = 4;
            const bool right = ncclCommInitAll(&own, 1, nullptr) == ncclSuccess &&
                               ncclAllReduce(&one, &one, 1, ncclFloat32, ncclSum, own, nullptr) == ncclSuccess &&
                               one == 4 && ncclCommDestroy(own) == ncclSuccess;
            ::_exit(right ? 0 : 1);
          }
          int status = -1;
          ::waitpid(child, &status, 0);
          if (status != 0) return "the child failed";
          value = 1;
          if (auto r = ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr); r != ncclSuccess)
            return describe("after the fork", r);
          return value == 2 ? "" : "wrong";
        })) == "");
}
