// Communicators from communicators: Split, Shrink, Grow; Revoke, Suspend and what remains possible after them.
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <thread>

#include "asleep.h"
#include "stage.h"
#include "world.h"

using namespace api_test;

namespace {

std::string describe(const char* what, ncclResult_t result) {
  return std::string(what) + ": " + ncclGetErrorString(result) + ": " + ncclGetLastError(nullptr);
}

// "" when an AllReduce of ones gives the number of ranks, and the place is the expected one.
std::string works(ncclComm_t comm, int rank, int ranks) {
  int own = -1;
  int count = -1;
  ncclCommUserRank(comm, &own);
  ncclCommCount(comm, &count);
  if (own != rank || count != ranks)
    return "is rank " + std::to_string(own) + " of " + std::to_string(count) + " instead of " + std::to_string(rank) +
           " of " + std::to_string(ranks);
  std::vector<float> data(1000, 1.0f);
  const ncclResult_t result = ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, nullptr);
  if (result != ncclSuccess) return describe("AllReduce", result);
  for (const float value : data)
    if (value != static_cast<float>(ranks)) return "wrong sum " + std::to_string(value);
  return "";
}

}  // namespace

TEST_CASE("Split groups ranks by color and orders them by key, then by rank") {
  for (const Mode mode : modes())
    CHECK(failures(run_world(mode, 5, [](int rank, ncclComm_t comm) -> std::string {
            for (int repeat = 0; repeat < 3; ++repeat) {
              // Colors 0: ranks 0 2 4, reversed by key; 7: ranks 1 3, equal keys.
              ncclComm_t child = nullptr;
              const ncclResult_t result =
                  ncclCommSplit(comm, rank % 2 == 0 ? 0 : 7, rank % 2 == 0 ? -rank : 3, &child, nullptr);
              if (result != ncclSuccess) return describe("Split", result);
              const auto failure = rank % 2 == 0 ? works(child, 2 - rank / 2, 3) : works(child, rank / 2, 2);
              if (!failure.empty()) return failure;
              if (ncclCommDestroy(child) != ncclSuccess) return "destroy";
            }
            return works(comm, rank, 5);
          })) == "");
}

TEST_CASE("Split without a color gives no communicator") {
  CHECK(failures(run_world(Mode::threads, 3, [](int rank, ncclComm_t comm) -> std::string {
          ncclComm_t child = reinterpret_cast<ncclComm_t>(&rank);
          const ncclResult_t result = ncclCommSplit(comm, rank == 1 ? NCCL_SPLIT_NOCOLOR : 0, 0, &child, nullptr);
          if (result != ncclSuccess) return describe("Split", result);
          if (rank == 1) return child == nullptr ? "" : "got a communicator";
          const auto failure = works(child, rank == 0 ? 0 : 1, 2);
          ncclCommDestroy(child);
          return failure;
        })) == "");
}

TEST_CASE("a wrong color on one rank fails the Split of all with that reason") {
  CHECK(failures(run_world(Mode::threads, 3, [](int rank, ncclComm_t comm) -> std::string {
          ncclComm_t child = nullptr;
          const ncclResult_t result = ncclCommSplit(comm, rank == 2 ? -5 : 0, 0, &child, nullptr);
          if (result != (rank == 2 ? ncclInvalidArgument : ncclInvalidUsage)) return describe("Split", result);
          if (std::string(ncclGetLastError(nullptr)).find("-5") == std::string::npos) return "does not name the color";
          // The parent is as it was.
          return works(comm, rank, 3);
        })) == "");
}

TEST_CASE("a child outlives its parent, and a split of a split works", "[processes]") {
  CHECK(failures(run_bare_world(Mode::processes, 4, [](int rank, const ncclUniqueId& id) -> std::string {
          ncclComm_t comm = nullptr;
          if (auto r = ncclCommInitRank(&comm, 4, id, rank); r != ncclSuccess) return describe("init", r);
          ncclComm_t half = nullptr;
          if (auto r = ncclCommSplit(comm, rank / 2, rank, &half, nullptr); r != ncclSuccess)
            return describe("Split", r);
          ncclCommDestroy(comm);
          ncclComm_t single = nullptr;
          if (auto r = ncclCommSplit(half, rank, 0, &single, nullptr); r != ncclSuccess) return describe("Split", r);
          if (auto failure = works(single, 0, 1); !failure.empty()) return failure;
          if (auto failure = works(half, rank % 2, 2); !failure.empty()) return failure;
          ncclCommDestroy(single);
          return ncclCommDestroy(half) == ncclSuccess ? "" : "destroy";
        })) == "");
}

TEST_CASE("several Splits in one group, by one thread for all ranks") {
  ncclComm_t comms[3];
  REQUIRE(ncclCommInitAll(comms, 3, nullptr) == ncclSuccess);
  ncclComm_t first[3] = {};
  ncclComm_t second[3] = {};
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(ncclCommSplit(comms[rank], 0, -rank, &first[rank], nullptr) == ncclSuccess);
    CHECK(ncclCommSplit(comms[rank], rank == 0 ? 1 : 0, 0, &second[rank], nullptr) == ncclSuccess);
  }
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  float data[3] = {1, 2, 4};
  ncclGroupStart();
  for (int rank = 0; rank < 3; ++rank)
    CHECK(ncclAllReduce(&data[rank], &data[rank], 1, ncclFloat32, ncclSum, first[rank], nullptr) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclSuccess);
  for (const float value : data) CHECK(value == 7);
  int rank_of_first = -1;
  int size_of_second = -1;
  ncclCommUserRank(first[0], &rank_of_first);
  ncclCommCount(second[1], &size_of_second);
  CHECK(rank_of_first == 2);
  CHECK(size_of_second == 2);
  for (int rank = 0; rank < 3; ++rank)
    for (ncclComm_t comm : {second[rank], comms[rank], first[rank]}) CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("Shrink needs only the survivors, also after one was killed", "[processes]") {
  const auto results = run_world(Mode::processes, 4, [](int rank, ncclComm_t comm) -> std::string {
    std::vector<float> data(3000000, 1.0f);
    if (rank == 1) ::raise(SIGKILL);
    if (ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, nullptr) != ncclRemoteError)
      return "the death was not noticed";
    int dead = 1;
    ncclComm_t rest = nullptr;
    const ncclResult_t result = ncclCommShrink(comm, &dead, 1, &rest, nullptr, NCCL_SHRINK_ABORT);
    if (result != ncclSuccess) return describe("Shrink", result);
    auto failure = works(rest, rank == 0 ? 0 : rank - 1, 3);
    ncclCommDestroy(rest);
    return failure;
  });
  for (const int rank : {0, 2, 3}) CHECK(results[static_cast<std::size_t>(rank)] == "");
}

TEST_CASE("Shrink twice with different lists, and wrong lists are refused") {
  CHECK(failures(run_world(Mode::threads, 3, [](int rank, ncclComm_t comm) -> std::string {
          ncclComm_t child = nullptr;
          int self = rank;
          int absent = 3;
          if (ncclCommShrink(comm, &self, 1, &child, nullptr, 0) != ncclInvalidArgument) return "self";
          if (ncclCommShrink(comm, &absent, 1, &child, nullptr, 0) != ncclInvalidArgument) return "absent";
          if (ncclCommShrink(comm, nullptr, 0, &child, nullptr, 0) != ncclInvalidArgument) return "empty";
          if (ncclCommShrink(comm, &absent, 1, &child, nullptr, 9) != ncclInvalidArgument) return "flags";
          for (int out : {2, 1, 2}) {
            if (rank == out) continue;
            if (auto r = ncclCommShrink(comm, &out, 1, &child, nullptr, 0); r != ncclSuccess)
              return describe("Shrink", r);
            const auto failure = works(child, rank == 0 ? 0 : 1, 2);
            ncclCommDestroy(child);
            if (!failure.empty()) return failure;
          }
          return works(comm, rank, 3);
        })) == "");
}

TEST_CASE("Grow takes new ranks in behind the old ones") {
  ncclComm_t grown[5] = {};
  std::string problems[5];
  ncclUniqueId old_id;
  REQUIRE(ncclGetUniqueId(&old_id) == ncclSuccess);
  ncclUniqueId grow_id;
  std::atomic<bool> have_id{false};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 5; ++rank)
    threads.emplace_back([&, rank] {
      std::string& problem = problems[rank];
      ncclComm_t old = nullptr;
      if (rank < 3) {
        if (auto r = ncclCommInitRank(&old, 3, old_id, rank); r != ncclSuccess) problem = describe("init", r);
        if (rank == 1) {
          if (auto r = ncclCommGetUniqueId(old, &grow_id); r != ncclSuccess) problem = describe("id", r);
          ncclUniqueId another;
          if (ncclCommGetUniqueId(old, &another) != ncclInvalidUsage) problem += "a second id before the first is used";
          have_id = true;
        }
        if (auto r = ncclCommGrow(old, 5, rank == 1 ? &grow_id : nullptr, -1, &grown[rank], nullptr); r != ncclSuccess)
          problem += describe("Grow", r);
      } else {
        while (!have_id) std::this_thread::yield();
        if (auto r = ncclCommGrow(nullptr, 5, &grow_id, rank, &grown[rank], nullptr); r != ncclSuccess)
          problem = describe("Grow", r);
      }
      if (problem.empty()) problem = works(grown[rank], rank, 5);
      if (problem.empty() && old != nullptr) problem = works(old, rank, 3);
      ncclCommDestroy(grown[rank]);
      ncclCommDestroy(old);
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& problem : problems) CHECK(problem == "");
}

TEST_CASE("Revoke ends a running call, and what remains is to split or shrink") {
  const sccl_test::Stage ended;
  CHECK(failures(run_world(Mode::threads, 3, [&](int rank, ncclComm_t comm) -> std::string {
          float value = 1;
          if (rank != 1) {  // revokes later: a call that ends since a peer revoked has failed, and Split tells of it
            ended.await(1);
          } else {
            std::thread revoker([comm] {
              std::this_thread::sleep_for(std::chrono::milliseconds(30));
              ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT);
            });
            const ncclResult_t result = ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr);
            revoker.join();
            ended.next();
            if (result == ncclSuccess) return "the call succeeded without the others";
          }
          if (rank != 1 && ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT) != ncclSuccess) return "revoke";
          if (ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT) != ncclInvalidArgument) return "twice";
          if (ncclCommFinalize(comm) != ncclInvalidArgument) return "finalize";
          ncclResult_t async = ncclInternalError;
          if (ncclCommGetAsyncError(comm, &async) != ncclSuccess || async != ncclSuccess)
            return describe("async", async);
          if (ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr) != ncclInvalidUsage)
            return "a call after it";
          ncclComm_t child = nullptr;
          if (auto r = ncclCommSplit(comm, 0, 0, &child, nullptr); r != ncclSuccess) return describe("Split", r);
          const auto failure = works(child, rank, 3);
          ncclCommDestroy(child);
          return failure;
        })) == "");
}

TEST_CASE("ranks whose calls ended because one revoked its communicator revoke theirs, and all split") {
  for (const Mode mode : modes())
    for (const int pause_ms : {0, 30, 60}) {  // before the first one revokes
      CHECK(failures(run_world(mode, 3, [&](int rank, ncclComm_t comm) -> std::string {
              float value = 1;
              if (rank == 0)
                std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
              else if (ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr) == ncclSuccess)
                return "the call succeeded without rank 0";
              if (auto r = ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT); r != ncclSuccess) return describe("Revoke", r);
              // The first one waits in Split for the others, whose calls have failed.
              if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(50));
              ncclComm_t child = nullptr;
              if (auto r = ncclCommSplit(comm, 0, rank, &child, nullptr); r != ncclSuccess)
                return describe("Split", r) + ": " + ncclGetLastError(nullptr);
              const std::string wrong = works(child, rank, 3);
              return ncclCommDestroy(child) == ncclSuccess ? wrong : "destroy";
            })) == "");
    }
}

TEST_CASE("a rank whose call failed and that does nothing more is named when a Split has waited in vain",
          "[processes]") {
  const sccl_test::Stage told;
  CHECK(failures(run_bare_world(Mode::processes, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
          ncclComm_t comm = nullptr;
          if (auto r = ncclCommInitRank(&comm, 2, id, rank); r != ncclSuccess) return describe("init", r);
          float value = 1;
          std::string wrong;
          if (rank == 1) {
            if (ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr) == ncclSuccess)
              wrong = "the call succeeded without rank 0";
            told.await(1);
          } else {
            ::setenv("SCCL_INIT_TIMEOUT_MS", "3000", 1);
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            if (auto r = ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT); r != ncclSuccess) wrong = describe("Revoke", r);
            ncclComm_t child = nullptr;
            const ncclResult_t result = ncclCommSplit(comm, 0, 0, &child, nullptr);
            const std::string text = ncclGetLastError(nullptr);
            for (const char* part : {"waited in vain for rank 1", "its call failed", "revoke its communicator"})
              if (text.find(part) == std::string::npos) wrong = describe("Split", result);
            told.next();
          }
          ncclCommAbort(comm);
          return wrong;
        })) == "");
}

TEST_CASE("a rank that waits for one that revoked its communicator is told so, and by whom") {
  for (const Mode mode : modes()) {
    const sccl_test::Stage told_other;
    const sccl_test::Sleeper caller;
    CHECK(failures(run_bare_world(mode, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
            ncclComm_t comm = nullptr;
            if (auto r = ncclCommInitRank(&comm, 2, id, rank); r != ncclSuccess) return describe("init", r);
            float value = 1;
            if (auto failure = works(comm, rank, 2); !failure.empty()) return failure;
            std::string wrong;
            if (rank == 1) {
              caller.await();
              if (auto r = ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT); r != ncclSuccess) return describe("Revoke", r);
              // Alive, and in no call: nothing else ends the other's wait.
              told_other.await(1);
            } else {
              // A call that were not told would wait until the peer's process or communicator ends.
              caller.calls_next();
              const ncclResult_t result = ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr);
              const std::string told = ncclGetLastError(nullptr);
              if (result != ncclRemoteError || told.find("rank 1") == std::string::npos ||
                  told.find("revoked its communicator") == std::string::npos)
                wrong = describe("AllReduce", result) + ": " + told;
              told_other.next();
            }
            ncclCommAbort(comm);
            return wrong;
          })) == "");
  }
}

TEST_CASE("abort of the parent ends a Split that waits for a missing rank") {
  // A busy machine may begin the Split after the abort, which proves nothing: then again, with more time.
  std::vector<std::string> results;
  for (std::chrono::milliseconds pause{200}; pause < std::chrono::seconds(20); pause *= 2) {
    const sccl_test::Stage ended;
    ncclResult_t result = ncclSuccess;
    results = run_bare_world(Mode::threads, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
      ncclComm_t comm = nullptr;
      if (auto r = ncclCommInitRank(&comm, 2, id, rank); r != ncclSuccess) return describe("init", r);
      if (rank == 1) {
        ended.await(1);
        return ncclCommDestroy(comm) == ncclSuccess ? "" : "destroy";
      }
      std::thread aborter([comm, pause] {
        std::this_thread::sleep_for(pause);
        ncclCommAbort(comm);
      });
      ncclComm_t child = nullptr;
      result = ncclCommSplit(comm, 0, 0, &child, nullptr);
      ended.next();
      aborter.join();
      return result == ncclInvalidUsage ? "" : describe("Split", result);
    });
    if (result != ncclInvalidArgument) break;
  }
  CHECK(failures(results) == "");
}

TEST_CASE("a suspended communicator gives its memory back and works again after Resume", "[processes]") {
  CHECK(failures(run_world(Mode::processes, 3, [](int rank, ncclComm_t comm) -> std::string {
          if (auto failure = works(comm, rank, 3); !failure.empty()) return failure;
          std::uint64_t total = 0;
          std::uint64_t suspendable = 0;
          std::uint64_t persistent = 0;
          std::uint64_t suspended = 9;
          ncclCommMemStats(comm, ncclStatGpuMemTotal, &total);
          ncclCommMemStats(comm, ncclStatGpuMemSuspend, &suspendable);
          ncclCommMemStats(comm, ncclStatGpuMemPersist, &persistent);
          if (total == 0 || total != suspendable + persistent) return "the sum is wrong";
          if (auto r = ncclCommSuspend(comm, NCCL_SUSPEND_MEM); r != ncclSuccess) return describe("Suspend", r);
          ncclCommMemStats(comm, ncclStatGpuMemSuspended, &suspended);
          if (suspended != 1) return "not suspended";
          float value = 1;
          if (ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr) != ncclInvalidUsage)
            return "a call while suspended";
          if (auto r = ncclCommResume(comm); r != ncclSuccess) return describe("Resume", r);
          if (ncclCommResume(comm) != ncclInvalidUsage) return "Resume twice";
          return works(comm, rank, 3);
        })) == "");
}
