// Windows, PutSignal, Signal, WaitSignal, and registration of buffers.
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <thread>

#include "stage.h"
#include "world.h"

using namespace api_test;

namespace {

std::string describe(const char* what, ncclResult_t result) {
  return std::string(what) + ": " + ncclGetErrorString(result) + ": " + ncclGetLastError(nullptr);
}

}  // namespace

TEST_CASE("a put arrives before its signal") {
  for (const Mode mode : modes())
    CHECK(failures(run_world(mode, 3, [](int rank, ncclComm_t comm) -> std::string {
            constexpr std::size_t kCount = 100000;
            std::vector<std::int32_t> inbox(3 * kCount, -1);
            std::vector<std::int32_t> mine(kCount);
            ncclWindow_t window = nullptr;
            if (auto r = ncclCommWindowRegister(comm, inbox.data(), inbox.size() * 4, &window, NCCL_WIN_COLL_SYMMETRIC);
                r != ncclSuccess)
              return describe("register", r);
            if (window == nullptr) return "no window";
            void* base = nullptr;
            if (ncclWinGetUserPtr(comm, window, &base) != ncclSuccess || base != inbox.data()) return "user pointer";
            for (int round = 0; round < 5; ++round) {
              std::iota(mine.begin(), mine.end(), rank * 1000 + round);
              const int to = (rank + 1) % 3;
              const int from = (rank + 2) % 3;
              if (auto r = ncclPutSignal(mine.data(), kCount, ncclInt32, to, window,
                                         static_cast<std::size_t>(rank) * kCount * 4, 3, 1, 0, comm, nullptr);
                  r != ncclSuccess)
                return describe("put", r);
              ncclWaitSignalDesc_t wait{1, from, 3, 1};
              if (auto r = ncclWaitSignal(1, &wait, comm, nullptr); r != ncclSuccess) return describe("wait", r);
              for (std::size_t i = 0; i < kCount; ++i)
                if (inbox[static_cast<std::size_t>(from) * kCount + i] != from * 1000 + round + static_cast<int>(i))
                  return "wrong data";
              // What was read may be overwritten only now.
              if (auto r = ncclSignal(from, 0, 0, 0, comm, nullptr); r != ncclSuccess) return describe("signal", r);
              ncclWaitSignalDesc_t read{1, to, 0, 0};
              if (auto r = ncclWaitSignal(1, &read, comm, nullptr); r != ncclSuccess) return describe("wait", r);
            }
            return ncclCommWindowDeregister(comm, window) == ncclSuccess ? "" : "deregister";
          })) == "");
}

TEST_CASE("one-sided calls of all ranks in one group of one thread") {
  ncclComm_t comms[2];
  REQUIRE(ncclCommInitAll(comms, 2, nullptr) == ncclSuccess);
  std::int32_t inbox[2] = {-1, -1};
  std::int32_t value[2] = {10, 11};
  ncclWindow_t windows[2] = {};
  ncclGroupStart();
  for (int rank = 0; rank < 2; ++rank)
    CHECK(ncclCommWindowRegister(comms[rank], &inbox[rank], 4, &windows[rank], 0) == ncclSuccess);
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  ncclGroupStart();
  for (int rank = 0; rank < 2; ++rank) {
    ncclWaitSignalDesc_t twice[2] = {{1, 1 - rank, 0, 0}, {1, 1 - rank, 0, 0}};
    CHECK(ncclWaitSignal(2, twice, comms[rank], nullptr) == ncclSuccess);
    CHECK(ncclPutSignal(&value[rank], 1, ncclInt32, 1 - rank, windows[rank], 0, 0, 0, 0, comms[rank], nullptr) ==
          ncclSuccess);
    CHECK(ncclSignal(1 - rank, 0, 0, 0, comms[rank], nullptr) == ncclSuccess);
  }
  CHECK(ncclGroupEnd() == ncclSuccess);
  CHECK(inbox[0] == 11);
  CHECK(inbox[1] == 10);
  for (ncclComm_t comm : comms) CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("memory that a program frees while it is in a window stays there as long as the window") {
  for (const Mode mode : modes())
    for (const std::size_t bytes : {std::size_t{4096}, std::size_t{1} << 20})
      CHECK(failures(run_world(mode, 2, [&](int rank, ncclComm_t comm) -> std::string {
              void* memory = nullptr;
              ncclWindow_t window = nullptr;
              if (ncclMemAlloc(&memory, bytes) != ncclSuccess) return "no memory";
              if (auto r = ncclCommWindowRegister(comm, memory, bytes, &window, 0); r != ncclSuccess)
                return describe("register", r);
              if (window == nullptr) return "";
              std::vector<std::int32_t> data(bytes / 4, 7);
              ncclWaitSignalDesc_t wait{1, 1 - rank, 0, 0};
              ncclResult_t result = rank == 1 ? ncclMemFree(memory) : ncclWaitSignal(1, &wait, comm, nullptr);
              if (result == ncclSuccess)
                result = rank == 1
                             ? ncclSignal(0, 0, 0, 0, comm, nullptr)
                             : ncclPutSignal(data.data(), data.size(), ncclInt32, 1, window, 0, 0, 0, 0, comm, nullptr);
              if (result == ncclSuccess && rank == 1) result = ncclWaitSignal(1, &wait, comm, nullptr);
              if (result != ncclSuccess) return describe("put", result);
              if (rank == 1 && static_cast<std::int32_t*>(memory)[bytes / 4 - 1] != 7) return "no data";
              if (ncclCommWindowDeregister(comm, window) != ncclSuccess) return "deregister";
              return ncclMemFree(memory) == (rank == 1 ? ncclInvalidArgument : ncclSuccess) ? "" : "free";
            })) == "");
}

TEST_CASE("addresses where no memory is are no window, and all ranks are told") {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  for (const Mode mode : modes())
    CHECK(failures(run_world(mode, 2, [&](int rank, ncclComm_t comm) -> std::string {
            void* const memory = ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (memory == MAP_FAILED || (rank == 1 && ::munmap(static_cast<char*>(memory) + page, page) != 0))
              return "no memory";
            ncclWindow_t window = nullptr;
            if (ncclCommWindowRegister(comm, memory, 2 * page, &window, 0) == ncclSuccess) return "registered";
            const std::string text = ncclGetLastError(nullptr);
            if (text.find("rank 1 registers a window") == std::string::npos) return "told: " + text;
            // The last error is the process's: no thread may make the next one before the other has read this one.
            std::int32_t sum = 1;
            if (auto r = ncclAllReduce(&sum, &sum, 1, ncclInt32, ncclSum, comm, nullptr); r != ncclSuccess)
              return describe("AllReduce", r);
            if (ncclCommWindowRegister(comm, memory, static_cast<std::size_t>(-1), &window, 0) == ncclSuccess)
              return "registered all addresses";
            const ncclResult_t result = ncclCommWindowRegister(comm, memory, page, &window, 0);
            return result == ncclSuccess ? "" : describe("register", result);
          })) == "");
}

TEST_CASE("a put whose window is deregistered before its group ends is refused") {
  CHECK(failures(run_world(Mode::threads, 2, [](int rank, ncclComm_t comm) -> std::string {
          std::int32_t data[4] = {};
          ncclWindow_t window = nullptr;
          if (auto r = ncclCommWindowRegister(comm, data, sizeof data, &window, 0); r != ncclSuccess)
            return describe("register", r);
          ncclGroupStart();
          ncclPutSignal(data, 1, ncclInt32, 1 - rank, window, 0, 0, 0, 0, comm, nullptr);
          if (ncclCommWindowDeregister(comm, window) != ncclSuccess) return "deregister";
          const ncclResult_t end = ncclGroupEnd();
          if (end != ncclInvalidUsage) return describe("end", end);
          std::int32_t sum = 1;
          const ncclResult_t result = ncclAllReduce(&sum, &sum, 1, ncclInt32, ncclSum, comm, nullptr);
          return result == ncclSuccess && sum == 2 ? "" : describe("AllReduce", result);
        })) == "");
}

TEST_CASE("a put that is refused at its group's end drops the whole group, also the calls of other communicators") {
  ncclComm_t comms[2], others[2];
  REQUIRE(ncclCommInitAll(comms, 2, nullptr) == ncclSuccess);
  REQUIRE(ncclCommInitAll(others, 2, nullptr) == ncclSuccess);
  std::int32_t inbox[2] = {-1, -1}, data = 7, sums[2] = {1, 2};
  ncclWindow_t windows[2] = {};
  ncclGroupStart();
  for (int rank = 0; rank < 2; ++rank)
    CHECK(ncclCommWindowRegister(comms[rank], &inbox[rank], 4, &windows[rank], 0) == ncclSuccess);
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  const auto sum_up = [&](ncclComm_t* group) {
    for (int rank = 0; rank < 2; ++rank)
      CHECK(ncclAllReduce(&sums[rank], &sums[rank], 1, ncclInt32, ncclSum, group[rank], nullptr) == ncclSuccess);
  };
  ncclGroupStart();
  for (int rank = 0; rank < 2; ++rank)
    CHECK(ncclPutSignal(&data, 1, ncclInt32, 1 - rank, windows[rank], 0, 0, 0, 0, comms[rank], nullptr) == ncclSuccess);
  sum_up(others);
  CHECK(ncclCommWindowDeregister(comms[1], windows[1]) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
  CHECK_THAT(ncclGetLastError(nullptr), Catch::Contains("rank 1: window") && Catch::Contains("rank 0's part") &&
                                            Catch::Contains("no call of that group was made"));
  CHECK(inbox[1] == -1);
  CHECK(sums[0] == 1);
  for (auto* group : {comms, others}) {
    ncclGroupStart();
    sum_up(group);
    CHECK(ncclGroupEnd() == ncclSuccess);
  }
  CHECK(sums[1] == 6);
  for (auto* group : {comms, others})
    for (int rank = 0; rank < 2; ++rank) CHECK(ncclCommDestroy(group[rank]) == ncclSuccess);
}

TEST_CASE("wrong one-sided calls are refused") {
  CHECK(failures(run_world(Mode::threads, 2, [](int rank, ncclComm_t comm) -> std::string {
          std::int32_t data[4] = {};
          ncclWindow_t window = nullptr;
          if (ncclCommWindowRegister(comm, data, sizeof data, &window, 64) != ncclInvalidArgument) return "flags";
          if (ncclCommWindowRegister(comm, data, sizeof data, nullptr, 0) != ncclInvalidArgument) return "NULL";
          if (ncclCommWindowRegister(comm, data, rank == 0 ? 4 : 8, &window, 0) != ncclInvalidArgument) return "sizes";
          if (auto r = ncclCommWindowRegister(comm, data, sizeof data, &window, 0); r != ncclSuccess)
            return describe("register", r);
          const auto put = [&](std::size_t count, int peer, std::size_t offset, int signal, unsigned flags) {
            return ncclPutSignal(data, count, ncclInt32, peer, window, offset, signal, 0, flags, comm, nullptr);
          };
          if (put(5, 0, 0, 0, 0) != ncclInvalidArgument) return "too long";
          if (put(1, 0, 16, 0, 0) != ncclInvalidArgument) return "offset";
          if (put(SIZE_MAX / 2, 0, 4, 0, 0) != ncclInvalidArgument) return "overflow";
          if (put(1, 2, 0, 0, 0) != ncclInvalidArgument) return "peer";
          if (put(1, 0, 0, 99, 0) != ncclInvalidArgument) return "signal";
          if (put(1, 0, 0, 0, 1) != ncclInvalidArgument) return "reserved";
          ncclWindow_t foreign = reinterpret_cast<ncclWindow_t>(data);
          if (ncclPutSignal(data, 1, ncclInt32, 0, foreign, 0, 0, 0, 0, comm, nullptr) != ncclInvalidUsage)
            return "foreign window";
          if (ncclCommWindowDeregister(comm, foreign) != ncclInvalidUsage) return "foreign deregister";
          if (ncclCommWindowDeregister(comm, nullptr) != ncclSuccess) return "NULL deregister";
          if (ncclCommWindowDeregister(comm, window) != ncclSuccess) return "deregister";
          if (ncclCommWindowDeregister(comm, window) != ncclInvalidUsage) return "deregister twice";
          return "";
        })) == "");
}

TEST_CASE("registration handles are kept, and wrong ones noticed") {
  ncclComm_t comm = nullptr;
  REQUIRE(ncclCommInitAll(&comm, 1, nullptr) == ncclSuccess);
  void* memory = nullptr;
  REQUIRE(ncclMemAlloc(&memory, 1 << 20) == ncclSuccess);
  void* handle = nullptr;
  CHECK(ncclCommRegister(comm, memory, 1 << 20, &handle) == ncclSuccess);
  CHECK(ncclCommDeregister(comm, nullptr) == ncclSuccess);
  CHECK(ncclCommDeregister(comm, &handle) == ncclInvalidUsage);
  CHECK(ncclCommDeregister(comm, handle) == ncclSuccess);
  CHECK(ncclCommDeregister(comm, handle) == ncclInvalidUsage);
  CHECK(ncclMemFree(memory) == ncclSuccess);
  CHECK(ncclMemFree(nullptr) == ncclSuccess);
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("Revoke ends a rank that waits for a signal") {
  const sccl_test::Stage ended;
  CHECK(failures(run_world(Mode::threads, 2, [&](int rank, ncclComm_t comm) -> std::string {
          if (rank == 1) {
            ended.await(1);
            return ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT) == ncclSuccess ? "" : "revoke";
          }
          std::thread revoker([comm] {
            std::this_thread::sleep_for(std::chrono::milliseconds(30));
            ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT);
          });
          ncclWaitSignalDesc_t wait{1, 1, 0, 0};
          const ncclResult_t result = ncclWaitSignal(1, &wait, comm, nullptr);
          ended.next();
          revoker.join();
          return result == ncclInvalidUsage ? "" : describe("wait", result);
        })) == "");
}

TEST_CASE("a put into the window of a rank that was killed says that it ended", "[processes]") {
  const auto results = run_world(Mode::processes, 2, [](int rank, ncclComm_t comm) -> std::string {
    std::vector<std::int32_t> memory(1000);
    ncclWindow_t window = nullptr;
    if (auto r = ncclCommWindowRegister(comm, memory.data(), memory.size() * 4, &window, NCCL_WIN_COLL_SYMMETRIC);
        r != ncclSuccess)
      return describe("register", r);
    if (window == nullptr) return "rank 1 (no window) ended";
    if (rank == 1) ::raise(SIGKILL);
    ncclResult_t result = ncclSuccess;
    while (result == ncclSuccess)
      result = ncclPutSignal(memory.data(), memory.size(), ncclInt32, 1, window, 0, 0, 0, 0, comm, nullptr);
    return describe("put", result);
  });
  CHECK_THAT(results[0], Catch::Contains("rank 1 (") && Catch::Contains("ended"));
}
