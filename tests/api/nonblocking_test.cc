// Non-blocking communicators: calls return at once, ncclCommGetAsyncError tells when the work is over.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "stage.h"
#include "world.h"

using namespace api_test;

namespace {

std::string describe(const char* what, ncclResult_t result) {
  return std::string(what) + ": " + ncclGetErrorString(result) + ": " + ncclGetLastError(nullptr);
}

ncclConfig_t non_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

// Polls until the communicator is no longer in progress.
ncclResult_t settled(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    if (const ncclResult_t asked = ncclCommGetAsyncError(comm, &state); asked != ncclSuccess) return asked;
    std::this_thread::yield();
  }
  return state;
}

// A world whose communicators are non-blocking.
std::vector<std::string> run_non_blocking(Mode mode, int ranks, const RankFunction& function) {
  return run_bare_world(mode, ranks, [&](int rank, const ncclUniqueId& id) -> std::string {
    ncclComm_t comm = nullptr;
    ncclConfig_t config = non_blocking();
    const ncclResult_t init = ncclCommInitRankConfig(&comm, ranks, id, rank, &config);
    if ((init != ncclInProgress && init != ncclSuccess) || comm == nullptr) return describe("init", init);
    if (const ncclResult_t state = settled(comm); state != ncclSuccess) return describe("init settled", state);
    std::string result = function(rank, comm);
    if (ncclCommDestroy(comm) != ncclSuccess) result += describe(" destroy", ncclInternalError);
    return result;
  });
}

}  // namespace

TEST_CASE("a non-blocking communicator works when it is polled") {
  for (const Mode mode : modes())
    CHECK(failures(run_non_blocking(mode, 3, [](int, ncclComm_t comm) -> std::string {
            for (int repeat = 0; repeat < 20; ++repeat) {
              std::vector<float> data(repeat % 2 == 0 ? 10 : 300000, 1.0f);
              const ncclResult_t result =
                  ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, nullptr);
              if (result != ncclInProgress && result != ncclSuccess) return describe("AllReduce", result);
              if (const ncclResult_t state = settled(comm); state != ncclSuccess) return describe("settled", state);
              for (const float value : data)
                if (value != 3) return "wrong sum";
            }
            return "";
          })) == "");
}

TEST_CASE("a communicator in progress takes no other call") {
  const sccl_test::Stage asked;
  CHECK(failures(run_non_blocking(Mode::threads, 2, [&](int rank, ncclComm_t comm) -> std::string {
          float value = 1;
          if (rank == 1) asked.await(1);
          const ncclResult_t first = ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr);
          if (first != ncclInProgress) return describe("first", first);
          if (rank == 0) {
            float other = 1;
            const ncclResult_t second = ncclAllReduce(&other, &other, 1, ncclFloat32, ncclSum, comm, nullptr);
            asked.next();
            if (second != ncclInvalidArgument) return describe("second", second);
            int count = 0;
            if (ncclCommCount(comm, &count) != ncclSuccess) return describe("count", ncclInternalError);
          }
          if (const ncclResult_t state = settled(comm); state != ncclSuccess) return describe("settled", state);
          return value == 2 ? "" : "wrong sum";
        })) == "");
}

TEST_CASE("a non-blocking init whose peers never come can be aborted at once") {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t comm = nullptr;
  ncclConfig_t config = non_blocking();
  REQUIRE(ncclCommInitRankConfig(&comm, 2, id, 0, &config) == ncclInProgress);
  float value = 1;
  CHECK(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr) == ncclInvalidArgument);
  ncclResult_t state = ncclSuccess;
  CHECK(ncclCommGetAsyncError(comm, &state) == ncclSuccess);
  CHECK(state == ncclInProgress);
  const auto before = std::chrono::steady_clock::now();
  CHECK(ncclCommAbort(comm) == ncclSuccess);
  CHECK(std::chrono::steady_clock::now() - before < std::chrono::seconds(20));  // the limit of init is longer
}

TEST_CASE("a non-blocking init whose peers never come ends when its communicator is destroyed") {
  // Without that the destruction waits so long, and the init tells who is missing.
  ::setenv("SCCL_INIT_TIMEOUT_MS", "20000", 1);
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t comm = nullptr;
  ncclConfig_t config = non_blocking();
  REQUIRE(ncclCommInitRankConfig(&comm, 2, id, 0, &config) == ncclInProgress);
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
  ::unsetenv("SCCL_INIT_TIMEOUT_MS");
  CHECK_THAT(ncclGetLastError(nullptr), Catch::Contains("rank 0 was aborted during "));
  ncclResult_t state = ncclSuccess;
  CHECK(ncclCommGetAsyncError(comm, &state) == ncclInvalidArgument);
}

TEST_CASE("a non-blocking collective whose peer never comes can be aborted") {
  const sccl_test::Stage ended;
  CHECK(failures(run_bare_world(Mode::threads, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
          ncclComm_t comm = nullptr;
          ncclConfig_t config = non_blocking();
          ncclCommInitRankConfig(&comm, 2, id, rank, &config);
          if (const ncclResult_t state = settled(comm); state != ncclSuccess) return describe("init", state);
          if (rank == 1) {
            ended.await(1);
            return ncclCommDestroy(comm) == ncclSuccess ? "" : "destroy";
          }
          std::vector<float> data(100000, 1.0f);
          const ncclResult_t result =
              ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, nullptr);
          const ncclResult_t aborted = ncclCommAbort(comm);
          ended.next();
          if (result != ncclInProgress) return describe("AllReduce", result);
          return aborted == ncclSuccess ? "" : "abort";
        })) == "");
}

TEST_CASE("the buffers of a call that another thread aborts are free as soon as its state is told") {
  for (int repeat = 0; repeat < 20; ++repeat)
    CHECK(failures(run_bare_world(Mode::threads, 4, [&](int rank, const ncclUniqueId& id) -> std::string {
            ncclComm_t comm = nullptr;
            ncclConfig_t config = non_blocking();
            const ncclResult_t init = ncclCommInitRankConfig(&comm, 4, id, rank, &config);
            if ((init != ncclInProgress && init != ncclSuccess) || comm == nullptr) return describe("init", init);
            if (const ncclResult_t state = settled(comm); state != ncclSuccess) return describe("init settled", state);
            std::vector<float> data(1 << 20, 1.0f);
            std::thread aborter([&] {
              std::this_thread::sleep_for(std::chrono::microseconds(1000 + 700 * repeat));
              ncclCommAbort(comm);
            });
            ncclResult_t state = ncclSuccess;
            while (state == ncclSuccess) {
              state = ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclMax, comm, nullptr);
              if (state == ncclInProgress) state = settled(comm);
            }
            std::fill(data.begin(), data.end(), 2.0f);
            aborter.join();
            for (const float value : data)
              if (value != 2) return "written after the call's end was told";
            return "";
          })) == "");
}

TEST_CASE("a failed background call is told by GetAsyncError, and the communicator stays failed", "[processes]") {
  const auto results = run_non_blocking(Mode::processes, 3, [](int rank, ncclComm_t comm) -> std::string {
    if (rank == 1) ::_exit(0);
    std::vector<float> data(100000, 1.0f);
    const ncclResult_t result =
        ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, nullptr);
    if (result != ncclInProgress) return describe("AllReduce", result);
    if (const ncclResult_t state = settled(comm); state != ncclRemoteError) return describe("settled", state);
    if (std::string(ncclGetLastError(comm)).find("rank 1") == std::string::npos) return ncclGetLastError(comm);
    return "";
  });
  CHECK(results[0] == "");
  CHECK(results[2] == "");
}

TEST_CASE("a Shrink that fails in the background is told by the revoked parent, and the next one works") {
  CHECK(failures(run_bare_world(Mode::threads, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
          ncclComm_t comm = nullptr;
          ncclConfig_t config = non_blocking();
          const ncclResult_t init = ncclCommInitRankConfig(&comm, 3, id, rank, &config);
          if (rank == 0) {  // it plays rank 2 as well
            ncclComm_t third = nullptr;
            ncclCommInitRankConfig(&third, 3, id, 2, &config);
            if (const ncclResult_t state = settled(third); state != ncclSuccess) return describe("third", state);
            ncclCommAbort(third);
          }
          if (init != ncclInProgress && init != ncclSuccess) return describe("init", init);
          if (const ncclResult_t state = settled(comm); state != ncclSuccess) return describe("init settled", state);
          if (rank == 1) {  // leaves without a word
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            return ncclCommAbort(comm) == ncclSuccess ? "" : "abort";
          }
          int gone[] = {2, 1};
          ncclComm_t child = nullptr;
          for (const int count : {1, 2}) {
            const ncclResult_t begun = ncclCommShrink(comm, gone, count, &child, &config, NCCL_SHRINK_ABORT);
            if (begun != ncclInProgress && begun != ncclSuccess) return describe("begun", begun);
            const ncclResult_t state = settled(comm);
            if (count == 1 && (state != ncclRemoteError || child != nullptr)) return describe("without rank 1", state);
            if (count == 2 && (state != ncclSuccess || child == nullptr)) return describe("alone", state);
          }
          if (const ncclResult_t state = settled(child); state != ncclSuccess) return describe("child", state);
          ncclCommDestroy(child);
          return ncclCommDestroy(comm) == ncclSuccess ? "" : "destroy";
        })) == "");
}

TEST_CASE("groups of non-blocking communicators: init, split and collectives by one thread") {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t comms[3] = {};
  ncclConfig_t config = non_blocking();
  ncclGroupStart();
  for (int rank = 0; rank < 3; ++rank) CHECK(ncclCommInitRankConfig(&comms[rank], 3, id, rank, &config) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclInProgress);
  for (ncclComm_t comm : comms) REQUIRE(settled(comm) == ncclSuccess);

  ncclComm_t children[3] = {};
  ncclGroupStart();
  for (int rank = 0; rank < 3; ++rank)
    CHECK(ncclCommSplit(comms[rank], 0, -rank, &children[rank], nullptr) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclInProgress);
  for (ncclComm_t comm : comms) REQUIRE(settled(comm) == ncclSuccess);
  float data[3] = {1, 2, 4};
  ncclGroupStart();
  for (int rank = 0; rank < 3; ++rank) {
    REQUIRE(children[rank] != nullptr);
    CHECK(settled(children[rank]) == ncclSuccess);
    CHECK(ncclAllReduce(&data[rank], &data[rank], 1, ncclFloat32, ncclSum, children[rank], nullptr) == ncclSuccess);
  }
  CHECK(ncclGroupEnd() == ncclInProgress);
  for (ncclComm_t comm : children) CHECK(settled(comm) == ncclSuccess);
  for (const float value : data) CHECK(value == 7);
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(ncclCommFinalize(comms[rank]) == ncclSuccess);
    CHECK(ncclCommDestroy(comms[rank]) == ncclSuccess);
    CHECK(ncclCommDestroy(children[rank]) == ncclSuccess);
  }
}

TEST_CASE("one group cannot hold blocking and non-blocking communicators") {
  ncclComm_t blocking = nullptr;
  ncclComm_t other = nullptr;
  REQUIRE(ncclCommInitAll(&blocking, 1, nullptr) == ncclSuccess);
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclConfig_t config = non_blocking();
  ncclCommInitRankConfig(&other, 1, id, 0, &config);
  REQUIRE(settled(other) == ncclSuccess);
  float a = 1;
  float b = 1;
  ncclGroupStart();
  ncclAllReduce(&a, &a, 1, ncclFloat32, ncclSum, blocking, nullptr);
  ncclAllReduce(&b, &b, 1, ncclFloat32, ncclSum, other, nullptr);
  CHECK(ncclGroupEnd() == ncclInvalidArgument);
  CHECK(ncclCommDestroy(blocking) == ncclSuccess);
  CHECK(ncclCommDestroy(other) == ncclSuccess);
}

TEST_CASE("a query that fails inside a group does not fail the group; a queued call does") {
  ncclComm_t comm = nullptr;
  REQUIRE(ncclCommInitAll(&comm, 1, nullptr) == ncclSuccess);
  float value = 1;
  ncclGroupStart();
  CHECK(ncclCommCount(comm, nullptr) == ncclInvalidArgument);
  CHECK(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclSuccess);
  ncclGroupStart();
  CHECK(ncclBroadcast(&value, &value, 1, ncclFloat32, 7, comm, nullptr) == ncclInvalidArgument);
  CHECK(ncclGroupEnd() == ncclInvalidArgument);
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
}
