// What goes wrong in and around the vendor's library is told, ends in time, and leaves the rest as it was.
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <thread>

#include "stage.h"
#include "vendor_world.h"

using namespace api_test;
using namespace vendor_test;

namespace {

// A call that names the vendor fails on every rank with such a text, and the communicator goes on with our schedules.
std::string is_refused(ncclComm_t comm, int ranks, const std::vector<std::string>& words) {
  std::vector<float> data(10, 1.0f);
  const ncclResult_t result = reduce_by_vendor(comm, data.data(), data.size(), 1);
  if (const std::string wrong = fails(result, ncclInvalidUsage, words); !wrong.empty()) return wrong;
  if (data[0] != 1) return "the refused call has changed its buffer";
  for (int repeat = 0; repeat < 3; ++repeat)
    if (const std::string wrong = sums(comm, ranks); !wrong.empty()) return "afterwards: " + wrong;
  return "";
}

void check_refused(const Variables& variables, const std::vector<std::string>& words) {
  const Environment environment(variables);
  CHECK(failures(run_world(Mode::threads, 3, [&](int, ncclComm_t comm) { return is_refused(comm, 3, words); })) == "");
}

}  // namespace

TEST_CASE("a library that does not exist, or is none, is named with the remedy") {
  check_refused({{"SCCL_VENDOR", "/nowhere/libnccl.so.2"}}, {"/nowhere/libnccl.so.2", "SCCL_VENDOR", "never"});
  check_refused({{"SCCL_VENDOR", "/etc/hostname"}}, {"/etc/hostname"});
  check_refused({{"SCCL_VENDOR", "/usr/lib/x86_64-linux-gnu/libm.so.6"}}, {"lacks", "ncclAllReduce"});
}

TEST_CASE("a library that lacks a function is not used, and the function is named") {
  check_refused({{"SCCL_VENDOR", LACKING_VENDOR}}, {LACKING_VENDOR, "lacks ncclAllReduce"});
}

TEST_CASE("this library is not its own vendor") {
  Dl_info about{};
  REQUIRE(::dladdr(reinterpret_cast<void*>(&ncclAllReduce), &about) != 0);
  check_refused({{"SCCL_VENDOR", std::filesystem::absolute(about.dli_fname).string()}}, {"is this library itself"});
}

TEST_CASE("a vendor's library that fails in init is told by all ranks, and our schedules go on") {
  const std::string faulty = FAULTY_VENDOR;
  check_refused({{"SCCL_VENDOR", faulty}, {"FAULTY_VENDOR", "CommInitRankConfig:fail"}},
                {"rank 0", "ncclCommInitRankConfig", "the test asked for it"});
  check_refused({{"SCCL_VENDOR", faulty}, {"FAULTY_VENDOR", "GetUniqueId:fail"}}, {"rank 0", "ncclGetUniqueId"});
}

TEST_CASE("where one rank fails in the vendor's init, no rank waits for its limit") {
  const auto begun = std::chrono::steady_clock::now();
  check_refused({{"SCCL_VENDOR", FAULTY_VENDOR}, {"FAULTY_VENDOR", "CommInitRankConfig:fail:1"}},
                {"rank 1", "ncclCommInitRankConfig", "the test asked for it"});
  CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(50));  // the limit is 60 s
}

TEST_CASE("a vendor's library that hangs in init is given up after its limit, on every rank") {
  check_refused({{"SCCL_VENDOR", FAULTY_VENDOR},
                 {"FAULTY_VENDOR", "CommInitRankConfig:hang:2"},
                 {"SCCL_VENDOR_TIMEOUT_MS", "700"}},
                {"ncclCommInitRankConfig", "700 ms", "SCCL_VENDOR_TIMEOUT_MS", FAULTY_VENDOR});
  check_refused(
      {{"SCCL_VENDOR", FAULTY_VENDOR}, {"FAULTY_VENDOR", "GetUniqueId:hang"}, {"SCCL_VENDOR_TIMEOUT_MS", "300"}},
      {"rank 0", "ncclGetUniqueId", "300 ms"});
}

TEST_CASE("an error of the vendor's library in a collective is told as ours, on all ranks") {
  const Environment environment(Variables{{"SCCL_VENDOR", FAULTY_VENDOR}, {"FAULTY_VENDOR", "Broadcast:fail:1"}});
  CHECK(failures(run_world(Mode::threads, 3, [](int, ncclComm_t comm) -> std::string {
          ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
          config.algSelection = "vendor";
          int value = 5;
          const ncclResult_t result = ncclBroadcastConfig(&value, &value, 1, ncclInt32, 0, comm, nullptr, &config);
          // A rank that had its data may learn of it at its next call.
          const ncclResult_t next = ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr);
          if (result == ncclSuccess && next == ncclSuccess) return "nobody told";
          const std::string text = ncclGetLastError(nullptr);
          for (const char* word : {"Broadcast", "call 1", "rank 1", "the test asked for it", "SCCL_VENDOR=never"})
            if (text.find(word) == std::string::npos) return std::string("no ") + word + " in: " + text;
          ncclResult_t state = ncclSuccess;
          ncclCommGetAsyncError(comm, &state);
          return state != ncclSuccess ? "" : "no asynchronous error";
        })) == "");
}

TEST_CASE("a call that hangs in the vendor's library ends after its limit with an error that names it") {
  const Environment environment(Variables{
      {"SCCL_VENDOR", FAULTY_VENDOR}, {"FAULTY_VENDOR", "AllReduce:hang"}, {"SCCL_VENDOR_TIMEOUT_MS", "500"}});
  CHECK(failures(run_world(Mode::threads, 2, [](int, ncclComm_t comm) -> std::string {
          std::vector<float> data(10, 1.0f);
          const ncclResult_t result = reduce_by_vendor(comm, data.data(), data.size(), 1);
          return fails(result, ncclSystemError,
                       {"AllReduce(count=10", "call 1", "500 ms", FAULTY_VENDOR, "SCCL_VENDOR=never"});
        })) == "");
}

TEST_CASE("a rank that comes late to a call is not taken for a library that hangs") {
  const Environment environment(
      Variables{{"SCCL_VENDOR", FAULTY_VENDOR}, {"SCCL_ALGO", "vendor"}, {"SCCL_VENDOR_TIMEOUT_MS", "400"}});
  CHECK(failures(run_world(Mode::threads, 2, [](int rank, ncclComm_t comm) -> std::string {
          for (int repeat = 0; repeat < 2; ++repeat) {
            if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(900));
            if (const std::string wrong = sums(comm, 2); !wrong.empty()) return wrong;
          }
          return "";
        })) == "");
}

TEST_CASE("an abort reaches calls in the vendor's library, in its init, and while the ranks agree") {
  for (const char* fault : {"AllReduce:hang:0", "CommInitRankConfig:hang:0", ""}) {
    const Environment environment(
        Variables{{"SCCL_VENDOR", FAULTY_VENDOR}, {"FAULTY_VENDOR", fault}, {"SCCL_VENDOR_TIMEOUT_MS", "0"}});
    const sccl_test::Stage over;
    CHECK(failures(run_bare_world(Mode::threads, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
            ncclComm_t comm = nullptr;
            if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return "init";
            if (rank == 1 && *fault == '\0') {  // never comes to the agreement
              over.await(1);
              return ncclCommAbort(comm) == ncclSuccess ? "" : "abort";
            }
            ncclResult_t result = ncclSuccess;
            std::vector<float> data(10, 1.0f);
            std::atomic<bool> calls{false};
            std::thread caller([&] {
              calls = true;
              result = reduce_by_vendor(comm, data.data(), data.size(), 1);
            });
            while (!calls) std::this_thread::yield();
            if (*fault != '\0') await_hanging_call();
            std::this_thread::sleep_for(std::chrono::milliseconds(200));
            const auto begun = std::chrono::steady_clock::now();
            const ncclResult_t aborted = ncclCommAbort(comm);
            over.next();
            caller.join();
            if (aborted != ncclSuccess) return "abort";
            if (std::chrono::steady_clock::now() - begun > std::chrono::seconds(20)) return "the abort took too long";
            return result != ncclSuccess ? "" : "the aborted call succeeded";
          })) == "");
  }
}

TEST_CASE("ranks that disagree about a call are told before the vendor's library has it") {
  const Environment environment(Variables{{"SCCL_VENDOR", FAULTY_VENDOR}, {"SCCL_ALGO", "vendor"}});
  CHECK(failures(run_world(Mode::threads, 2, [](int rank, ncclComm_t comm) -> std::string {
          if (const std::string wrong = sums(comm, 2); !wrong.empty()) return wrong;
          std::vector<int> data(10, 1);
          const ncclResult_t result =
              ncclAllReduce(data.data(), data.data(), rank == 0 ? 10 : 9, ncclInt32, ncclSum, comm, nullptr);
          return fails(result, ncclInvalidUsage, {"count=10", "count=9"});
        })) == "");
  CHECK(served_calls() == 2);
}

TEST_CASE("one rank without the vendor's library is enough for all to do without", "[processes]") {
  if (modes().size() < 2) sccl_test::skip(kNoProcesses);
  const Environment environment(Variables{{"SCCL_VENDOR", FAULTY_VENDOR}, {"SCCL_ALGO", "vendor"}});
  CHECK(failures(run_bare_world(Mode::processes, 3, [](int rank, const ncclUniqueId& id) -> std::string {
          if (rank == 2) ::setenv("SCCL_VENDOR", "never", 1);
          ncclComm_t comm = nullptr;
          if (ncclCommInitRank(&comm, 3, id, rank) != ncclSuccess) return "init";
          for (int repeat = 0; repeat < 3; ++repeat)
            if (const std::string wrong = sums(comm, 3); !wrong.empty()) return wrong;
          std::vector<float> data(10, 1.0f);
          if (reduce_by_vendor(comm, data.data(), data.size(), 0) != ncclSuccess) return describe("wish", ncclSuccess);
          const std::string wrong =
              fails(reduce_by_vendor(comm, data.data(), data.size(), 1), ncclInvalidUsage, {"vendor"});
          if (!wrong.empty()) return wrong;
          if (served_calls() > 0) return "the vendor has served";
          return ncclCommDestroy(comm) == ncclSuccess ? "" : "destroy";
        })) == "");
}

TEST_CASE("ranks with different versions of the vendor's library do not use it", "[processes]") {
  if (modes().size() < 2) sccl_test::skip(kNoProcesses);
  const Environment environment(Variables{{"SCCL_VENDOR", FAULTY_VENDOR}});
  CHECK(failures(run_bare_world(Mode::processes, 2, [](int rank, const ncclUniqueId& id) -> std::string {
          if (rank == 1) ::setenv("FAULTY_VENDOR", "version:other", 1);
          ncclComm_t comm = nullptr;
          if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return "init";
          const std::string wrong = is_refused(comm, 2, {"rank 1", "2.28.9", "the same library"});
          return wrong.empty() && ncclCommDestroy(comm) != ncclSuccess ? "destroy" : wrong;
        })) == "");
}

TEST_CASE("a rank that dies in the vendor's library is named by the others", "[processes]") {
  if (modes().size() < 2) sccl_test::skip(kNoProcesses);
  const Environment environment(Variables{{"SCCL_VENDOR", FAULTY_VENDOR}, {"FAULTY_VENDOR", "AllReduce:hang:1"}});
  const auto results = run_world(Mode::processes, 3, [](int rank, ncclComm_t comm) -> std::string {
    std::vector<float> data(10, 1.0f);
    std::thread killer;
    if (rank == 1)
      killer = std::thread([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        ::_exit(7);
      });
    const ncclResult_t result = reduce_by_vendor(comm, data.data(), data.size(), 1);
    return fails(result, ncclRemoteError, {"rank 1"});
  });
  CHECK(results[0] == "");
  CHECK(results[2] == "");
}

TEST_CASE("a destroy that hangs in the vendor's library does not hold ours") {
  const Environment environment(
      Variables{{"SCCL_VENDOR", FAULTY_VENDOR}, {"SCCL_ALGO", "vendor"}, {"FAULTY_VENDOR", "CommDestroy:hang:0"}});
  CHECK(failures(run_world(Mode::threads, 2, [](int, ncclComm_t comm) { return sums(comm, 2); })) == "");
}

TEST_CASE("NCCL itself, without a device, is told in a clear text, and our schedules go on") {
  const char* const path = "/usr/local/cuda/lib/libnccl.so.2";
  if (!std::filesystem::exists(path)) sccl_test::skip("no libnccl.so.2 in /usr/local/cuda/lib");
  check_refused({{"SCCL_VENDOR", path}}, {"rank 0", "ncclCommInitRankConfig", "SCCL_VENDOR"});
}

TEST_CASE("a revocation ends a call in the vendor's library") {
  const Environment environment(Variables{
      {"SCCL_VENDOR", FAULTY_VENDOR}, {"FAULTY_VENDOR", "AllReduce:hang:0"}, {"SCCL_VENDOR_TIMEOUT_MS", "0"}});
  CHECK(failures(run_world(Mode::threads, 2, [](int, ncclComm_t comm) -> std::string {
          std::vector<float> data(10, 1.0f);
          ncclResult_t result = ncclSuccess;
          std::thread caller([&] { result = reduce_by_vendor(comm, data.data(), data.size(), 1); });
          await_hanging_call();
          const ncclResult_t revoked = ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT);
          caller.join();
          if (revoked != ncclSuccess) return describe("revoke", revoked);
          return result != ncclSuccess ? "" : "the revoked call succeeded";
        })) == "");
}
