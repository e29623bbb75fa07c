// The vendor's library as one more algorithm: another build of this library serves, on host memory.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <thread>

#include "../api/collective_case.h"
#include "vendor_world.h"

using namespace api_test;
using namespace vendor_test;

namespace {

const Variables kForced{{"SCCL_VENDOR", FAULTY_VENDOR}, {"SCCL_ALGO", "vendor"}};

std::vector<Case> cases_of_every_kind(int ranks) {
  std::vector<Case> cases;
  for (const KindInfo& kind : kinds())
    for (const TypeInfo& type : types())
      for (const Op op : kOps) {
        if (!kind.reduces && op != Op::sum) continue;
        const int root = kind.rooted ? ranks - 1 : 0;
        cases.push_back({&kind, &type, op, 77, kind.has_in_place && cases.size() % 2 == 0, cases.size() % 3, root});
      }
  return cases;
}

}  // namespace

TEST_CASE("every collective, type and operation is right through the vendor's library") {
  const Environment environment(kForced);
  for (const int ranks : {2, 3}) {
    const std::vector<Case> cases = cases_of_every_kind(ranks);
    CHECK(failures(run_world(Mode::threads, ranks, [&](int rank, ncclComm_t comm) -> std::string {
            for (const Case& test : cases)
              if (const std::string wrong = run_case(test, rank, ranks, comm); !wrong.empty()) return wrong;
            return "";
          })) == "");
    // Sums of fp8 are ours: devices before Hopper have none.
    int own = 0;
    for (const Case& test : cases) own += test.kind->reduces && test.type->floating && test.type->bytes == 1 ? 1 : 0;
    CHECK(served_calls() == ranks * (static_cast<int>(cases.size()) - own));
  }
}

TEST_CASE("ranks that are processes use the vendor's library, too", "[processes]") {
  if (modes().size() < 2) sccl_test::skip(kNoProcesses);
  const Environment environment(kForced);
  CHECK(failures(run_world(Mode::processes, 4, [](int, ncclComm_t comm) -> std::string {
          for (int repeat = 0; repeat < 5; ++repeat)
            if (const std::string wrong = sums(comm, 4, repeat % 2 == 0 ? 3 : 100000); !wrong.empty()) return wrong;
          return served_calls() == 5 ? "" : "the vendor has not served";
        })) == "");
}

TEST_CASE("the vendor's communicator is made by the first call that wants it, and only by such a call") {
  const Environment environment(Variables{{"SCCL_VENDOR", FAULTY_VENDOR}});
  CHECK(failures(run_world(Mode::threads, 2, [](int, ncclComm_t comm) -> std::string {
          if (const std::string wrong = sums(comm, 2); !wrong.empty()) return wrong;
          std::vector<float> data(10, 1.0f);
          const ncclResult_t result = reduce_by_vendor(comm, data.data(), data.size(), 1);
          if (result != ncclSuccess) return describe("by the vendor", result);
          if (data[9] != 2) return "wrong sum";
          return sums(comm, 2);
        })) == "");
  CHECK(served_calls() == 2);
}

TEST_CASE("a function that has another name in RCCL serves under that name") {
  const Environment environment(Variables{{"SCCL_VENDOR", RCCL_VENDOR}, {"SCCL_ALGO", "vendor"}});
  CHECK(failures(run_world(Mode::threads, 2, [](int rank, ncclComm_t comm) -> std::string {
          const std::vector<int> sent{10 * rank, 10 * rank + 1};
          std::vector<int> got(2, -1);
          const ncclResult_t result = ncclAlltoAll(sent.data(), got.data(), 1, ncclInt32, comm, nullptr);
          if (result != ncclSuccess) return describe("AlltoAll", result);
          return got == std::vector<int>{rank, 10 + rank} ? "" : "wrong data";
        })) == "");
  CHECK(served_calls(RCCL_VENDOR) == 2);
}

TEST_CASE("calls of a group keep their order, whoever serves them") {
  const Environment environment(Variables{{"SCCL_VENDOR", FAULTY_VENDOR}});
  CHECK(failures(run_world(Mode::threads, 3, [](int rank, ncclComm_t comm) -> std::string {
          for (int repeat = 0; repeat < 10; ++repeat) {
            std::vector<float> data(100, 1.0f);
            float sent = static_cast<float>(rank);
            float got = -1;
            ncclGroupStart();
            ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, nullptr);
            reduce_by_vendor(comm, data.data(), data.size(), 1);
            ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, nullptr);
            ncclSend(&sent, 1, ncclFloat32, (rank + 1) % 3, comm, nullptr);
            ncclRecv(&got, 1, ncclFloat32, (rank + 2) % 3, comm, nullptr);
            if (const ncclResult_t result = ncclGroupEnd(); result != ncclSuccess) return describe("group", result);
            for (const float value : data)
              if (value != 27) return "three sums of three ranks gave " + std::to_string(value);
            if (got != static_cast<float>((rank + 2) % 3)) return "wrong message";
          }
          return "";
        })) == "");
  CHECK(served_calls() == 30);
}

TEST_CASE("one thread drives several ranks through the vendor's library in a group") {
  const Environment environment(kForced);
  ncclComm_t comms[3];
  REQUIRE(ncclCommInitAll(comms, 3, nullptr) == ncclSuccess);
  std::vector<std::vector<int>> data(3, std::vector<int>(50, 1));
  for (int repeat = 0; repeat < 3; ++repeat) {
    ncclGroupStart();
    for (int i = 0; i < 3; ++i)
      ncclAllReduce(data[static_cast<std::size_t>(i)].data(), data[static_cast<std::size_t>(i)].data(), 50, ncclInt32,
                    ncclSum, comms[i], nullptr);
    REQUIRE(ncclGroupEnd() == ncclSuccess);
  }
  for (const auto& one : data) CHECK(one == std::vector<int>(50, 27));
  CHECK(served_calls() == 9);
  for (ncclComm_t comm : comms) CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("children of a split have a vendor's communicator of their own") {
  const Environment environment(kForced);
  CHECK(failures(run_world(Mode::threads, 4, [](int rank, ncclComm_t comm) -> std::string {
          if (const std::string wrong = sums(comm, 4); !wrong.empty()) return wrong;
          ncclComm_t child = nullptr;
          if (ncclCommSplit(comm, rank % 2, -rank, &child, nullptr) != ncclSuccess) return "split";
          if (const std::string wrong = sums(child, 2); !wrong.empty()) return "child: " + wrong;
          if (const std::string wrong = sums(comm, 4); !wrong.empty()) return "parent again: " + wrong;
          return ncclCommDestroy(child) == ncclSuccess ? "" : "destroy";
        })) == "");
  CHECK(served_calls() == 12);
}

TEST_CASE("a scaled sum is translated for the vendor's library, with its scalar as it was at the call") {
  const Environment environment(kForced);
  CHECK(failures(run_world(Mode::threads, 2, [](int rank, ncclComm_t comm) -> std::string {
          for (const ncclScalarResidence_t residence : {ncclScalarHostImmediate, ncclScalarDevice}) {
            double scalar = rank == 0 ? 2.0 : 10.0;
            ncclRedOp_t op;
            if (ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat64, residence, comm) != ncclSuccess) return "create";
            if (residence == ncclScalarHostImmediate) scalar = 1000;
            double value = 1;
            const ncclResult_t result = ncclAllReduce(&value, &value, 1, ncclFloat64, op, comm, nullptr);
            if (ncclRedOpDestroy(op, comm) != ncclSuccess) return "destroy of the operation";
            if (result != ncclSuccess) return describe("AllReduce", result);
            if (value != 12) return "wrong sum " + std::to_string(value);
          }
          return "";
        })) == "");
  CHECK(served_calls() == 4);
}

TEST_CASE("a non-blocking communicator uses the vendor's library") {
  const Environment environment(kForced);
  CHECK(failures(run_bare_world(Mode::threads, 2, [](int rank, const ncclUniqueId& id) -> std::string {
          ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
          config.blocking = 0;
          ncclComm_t comm = nullptr;
          const auto settled = [&] {
            ncclResult_t state = ncclInProgress;
            while (state == ncclInProgress && ncclCommGetAsyncError(comm, &state) == ncclSuccess)
              std::this_thread::yield();
            return state;
          };
          ncclCommInitRankConfig(&comm, 2, id, rank, &config);
          if (const ncclResult_t state = settled(); state != ncclSuccess) return describe("init", state);
          std::vector<int> data(1000, 1);
          for (int repeat = 0; repeat < 3; ++repeat) {
            ncclAllReduce(data.data(), data.data(), data.size(), ncclInt32, ncclSum, comm, nullptr);
            if (const ncclResult_t state = settled(); state != ncclSuccess) return describe("AllReduce", state);
          }
          if (data[999] != 8) return "wrong sum";
          return ncclCommDestroy(comm) == ncclSuccess ? "" : "destroy";
        })) == "");
  CHECK(served_calls() == 6);
}

TEST_CASE("measured times decide between our schedules and the vendor's library") {
  char folder[] = "/tmp/sccl-vendor-XXXXXX";
  REQUIRE(::mkdtemp(folder) != nullptr);
  const std::string trace = std::string(folder) + "/trace";
  const Environment environment(Variables{
      {"SCCL_VENDOR", FAULTY_VENDOR}, {"SCCL_TUNE", "online"}, {"SCCL_TUNE_TRACE", trace}, {"SCCL_CACHE_DIR", folder}});
  CHECK(failures(run_world(Mode::threads, 2, [](int, ncclComm_t comm) -> std::string {
          for (int repeat = 0; repeat < 1500; ++repeat)
            if (const std::string wrong = sums(comm, 2, 4000); !wrong.empty()) return wrong;
          return "";
        })) == "");
  CHECK(served_calls() > 0);
  std::ifstream file(trace);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  CHECK(text.find("vendor") != std::string::npos);
}

TEST_CASE("without permission for other sums the vendor's library is no candidate for sums of floating point") {
  const Environment environment(
      Variables{{"SCCL_VENDOR", FAULTY_VENDOR}, {"SCCL_TUNE", "online"}, {"SCCL_DETERMINISTIC", "1"}});
  CHECK(failures(run_world(Mode::threads, 2, [](int, ncclComm_t comm) -> std::string {
          for (int repeat = 0; repeat < 300; ++repeat)
            if (const std::string wrong = sums(comm, 2, 4000); !wrong.empty()) return wrong;
          return "";
        })) == "");
  CHECK(served_calls() <= 0);
}
