// Bad arguments, disagreement, death, abort: each ends with an error that names what is wrong.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <exception>
#include <functional>
#include <random>
#include <thread>

#include "asleep.h"
#include "id_process.h"
#include "stage.h"
#include "world.h"

using namespace api_test;

namespace {

std::string last_error() { return ncclGetLastError(nullptr); }

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("wrong arguments are refused with what is wrong") {
  CHECK(failures(run_world(Mode::threads, 2, [](int, ncclComm_t comm) -> std::string {
          float value = 1;
          const auto refused = [&](const char* what, ncclResult_t result) -> std::string {
            return result == ncclInvalidArgument ? ""
                                                 : std::string(what) + " gave " + ncclGetErrorString(result) + ". ";
          };
          std::string all;
          all += refused("type",
                         ncclAllReduce(&value, &value, 1, static_cast<ncclDataType_t>(12), ncclSum, comm, nullptr));
          all += refused("negative type",
                         ncclAllReduce(&value, &value, 1, static_cast<ncclDataType_t>(-1), ncclSum, comm, nullptr));
          all +=
              refused("op", ncclAllReduce(&value, &value, 1, ncclFloat32, static_cast<ncclRedOp_t>(77), comm, nullptr));
          all += refused("root", ncclBroadcast(&value, &value, 1, ncclFloat32, 2, comm, nullptr));
          all += refused("negative root", ncclReduce(&value, &value, 1, ncclFloat32, ncclSum, -1, comm, nullptr));
          all += refused("peer", ncclSend(&value, 1, ncclFloat32, 9, comm, nullptr));
          all += refused("NULL comm", ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, nullptr, nullptr));
          all += refused("stream", ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm,
                                                 reinterpret_cast<cudaStream_t>(&value)));
          char garbage[512];
          std::memset(garbage, 0x5a, sizeof garbage);
          all += refused("garbage comm", ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum,
                                                       reinterpret_cast<ncclComm_t>(garbage), nullptr));
          return all;
        })) == "");
}

TEST_CASE("wrong ranks at init are refused") {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t comm = nullptr;
  CHECK(ncclCommInitRank(&comm, 2, id, 2) == ncclInvalidArgument);
  CHECK(ncclCommInitRank(&comm, 2, id, -1) == ncclInvalidArgument);
  CHECK(ncclCommInitRank(&comm, 0, id, 0) == ncclInvalidArgument);
  CHECK(ncclCommInitRank(nullptr, 1, id, 0) == ncclInvalidArgument);
}

TEST_CASE("an id that another library made is refused with the reason") {
  ncclUniqueId id;
  for (std::size_t i = 0; i < sizeof id; ++i) reinterpret_cast<char*>(&id)[i] = static_cast<char>(i * 37);
  ncclComm_t comm = nullptr;
  CHECK(ncclCommInitRank(&comm, 2, id, 0) == ncclInvalidArgument);
  CHECK(last_error() != "");
}

TEST_CASE("ranks that disagree on a call all get an error naming both calls") {
  struct Disagreement {
    const char* what;
    std::function<ncclResult_t(int, float*, ncclComm_t)> call;
    std::vector<const char*> names;
  };
  const Disagreement all[] = {
      {"count",
       [](int rank, float* data, ncclComm_t comm) {
         return ncclAllReduce(data, data, rank == 1 ? 50 : 51, ncclFloat32, ncclSum, comm, nullptr);
       },
       {"count=50", "count=51"}},
      {"large count",
       [](int rank, float* data, ncclComm_t comm) {
         return ncclAllReduce(data, data, rank == 1 ? 50000 : 50, ncclFloat32, ncclSum, comm, nullptr);
       },
       {"count=50000", "count=50,"}},
      {"type",
       [](int rank, float* data, ncclComm_t comm) {
         return ncclAllReduce(data, data, 64, rank == 1 ? ncclInt32 : ncclFloat32, ncclSum, comm, nullptr);
       },
       {"int32", "float"}},
      {"operation",
       [](int rank, float* data, ncclComm_t comm) {
         return ncclAllReduce(data, data, 64, ncclFloat32, rank == 1 ? ncclMax : ncclSum, comm, nullptr);
       },
       {"max", "sum"}},
      {"root",
       [](int rank, float* data, ncclComm_t comm) {
         return ncclBroadcast(data, data, 64, ncclFloat32, rank == 1 ? 1 : 0, comm, nullptr);
       },
       {"root=0", "root=1"}},
      {"collective",
       [](int rank, float* data, ncclComm_t comm) {
         return rank == 1 ? ncclAllGather(data, data + 10000, 64, ncclFloat32, comm, nullptr)
                          : ncclAllReduce(data, data, 64, ncclFloat32, ncclSum, comm, nullptr);
       },
       {"AllGather", "AllReduce"}},
  };
  for (const Disagreement& disagreement : all)
    for (const Mode mode : modes()) {
      INFO(disagreement.what << ", " << name(mode));
      const auto results = run_world(mode, 3, [&](int rank, ncclComm_t comm) -> std::string {
        std::vector<float> data(100000, 1.0f);
        ncclResult_t result = disagreement.call(rank, data.data(), comm);
        // A rank that only sends may learn of the others' error from its next call.
        if (result == ncclSuccess)
          result = ncclAllReduce(data.data(), data.data(), 8, ncclFloat32, ncclSum, comm, nullptr);
        if (result == ncclSuccess) return "";
        return std::string(ncclGetErrorString(result)) + " | " + last_error();
      });
      bool named = false;
      int failed = 0;
      for (const std::string& result : results) {
        failed += result.empty() ? 0 : 1;
        bool both = true;
        for (const char* part : disagreement.names) both = both && contains(result, part);
        named = named || both;
      }
      INFO(failures(results));
      CHECK(failed == 3);
      CHECK(named);
    }
}

TEST_CASE("a rank that waits for one that made another call and went far ahead is told") {
  for (const Mode mode : modes()) {
    INFO(name(mode));
    const auto results = run_world(mode, 2, [&](int rank, ncclComm_t comm) -> std::string {
      float value = 1;
      const auto all_reduce = [&] { return ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr); };
      if (all_reduce() != ncclSuccess) return "a right call failed";
      ncclResult_t result = ncclSuccess;
      if (rank == 1) {
        // So that the other one is hundreds of calls ahead.
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        result = all_reduce();
      } else {
        for (int i = 0; i < 100000 && result == ncclSuccess; ++i)
          result = ncclBroadcast(&value, &value, 1, ncclFloat32, 0, comm, nullptr);
      }
      if (result != ncclInvalidUsage) return std::string("got ") + ncclGetErrorString(result);
      return contains(last_error(), "call 2") && contains(last_error(), "AllReduce") ? "" : last_error();
    });
    CHECK(failures(results) == "");
  }
}

// Rank 0 only sends, so it does not wait for rank 1.
TEST_CASE("a rank that waits for one that made another call, went far ahead and ended is told of the call",
          "[processes]") {
  const sccl_test::Stage ended;
  const auto results = run_world(Mode::processes, 2, [&](int rank, ncclComm_t comm) -> std::string {
    float value = 1;
    const auto all_reduce = [&] { return ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr); };
    if (all_reduce() != ncclSuccess) return "a right call failed";
    if (rank == 0) {
      for (int i = 0; i < 100; ++i)  // more than a rank has records of calls
        if (ncclBroadcast(&value, &value, 1, ncclFloat32, 0, comm, nullptr) != ncclSuccess) break;
      ended.next();
      ::_exit(0);
    }
    ended.await(1);
    if (const ncclResult_t result = all_reduce(); result != ncclInvalidUsage)
      return std::string("got ") + ncclGetErrorString(result) + " | " + last_error();
    return contains(last_error(), "call 2") && contains(last_error(), "another call") ? "" : last_error();
  });
  CHECK(results[1] == "");
}

TEST_CASE("two ranks that both take themselves for the root are told when the next message comes") {
  for (const Mode mode : modes()) {
    INFO(name(mode));
    const auto results = run_world(mode, 2, [&](int rank, ncclComm_t comm) -> std::string {
      float value = 1;
      const auto broadcast = [&](int root) {
        return ncclBroadcast(&value, &value, 1, ncclFloat32, root, comm, nullptr);
      };
      for (int i = 0; i < 200; ++i)
        if (broadcast(0) != ncclSuccess) return "a right call failed";
      ncclResult_t result = broadcast(rank);
      for (int i = 0; i < 5 && result == ncclSuccess; ++i) result = broadcast(0);
      if (result == ncclSuccess) result = ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr);
      if (result == ncclSuccess) return "nobody noticed";
      const std::string error = last_error();
      for (const char* part : {"root=0", "root=1", "call 201"})
        if (error.find(part) == std::string::npos) return error;
      return "";
    });
    for (const std::string& result : results) CHECK(result == "");
  }
}

TEST_CASE("a killed rank is named by every survivor", "[processes]") {
  for (const std::size_t count : {std::size_t{4}, std::size_t{4000000}}) {
    const auto results = run_world(Mode::processes, 4, [&](int rank, ncclComm_t comm) -> std::string {
      std::vector<float> data(count, 1.0f);
      if (rank == 2) ::raise(SIGKILL);
      const ncclResult_t result = ncclAllReduce(data.data(), data.data(), count, ncclFloat32, ncclSum, comm, nullptr);
      ncclResult_t async = ncclSuccess;
      ncclCommGetAsyncError(comm, &async);
      if (result != ncclRemoteError || async != ncclRemoteError)
        return std::string("got ") + ncclGetErrorString(result);
      return last_error();
    });
    for (const int rank : {0, 1, 3}) {
      INFO(results[static_cast<std::size_t>(rank)]);
      CHECK(contains(results[static_cast<std::size_t>(rank)], "rank 2"));
    }
  }
}

TEST_CASE("abort from another thread ends a call that waits for a missing rank") {
  const sccl_test::Sleeper caller;
  const sccl_test::Stage given_up;
  const auto bare = run_bare_world(Mode::threads, 2, [&](int rank, const ncclUniqueId& id) -> std::string {
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return "init: " + last_error();
    if (rank == 1) {
      // Stays a member, but never calls.
      given_up.await(1);
      return ncclCommDestroy(comm) == ncclSuccess ? "" : "destroy: " + last_error();
    }
    std::string not_asleep;
    std::thread aborter([&, comm] {
      try {
        caller.await();
      } catch (const std::exception& error) {
        not_asleep = error.what();
      }
      ncclCommAbort(comm);
    });
    float value = 1;
    caller.calls_next();
    const ncclResult_t result = ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr);
    aborter.join();
    given_up.next();
    return result == ncclSuccess ? "the call succeeded" : not_asleep;
  });
  CHECK(failures(bare) == "");
}

TEST_CASE("a communicator of survivors works after a failure", "[processes]") {
  // Two ids: the second communicator leaves out the rank that died.
  const sccl_test::IdProcess second;
  REQUIRE(second.problem() == "");
  const auto results = run_world(Mode::processes, 3, [&](int rank, ncclComm_t comm) -> std::string {
    float value = 1;
    if (rank == 2) ::raise(SIGKILL);
    if (ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr) == ncclSuccess) return "first succeeded";
    ncclComm_t survivors = nullptr;
    if (ncclCommInitRank(&survivors, 2, second.id(), rank) != ncclSuccess) return "init: " + last_error();
    value = 1;
    if (ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, survivors, nullptr) != ncclSuccess || value != 2)
      return "second: " + last_error();
    return ncclCommDestroy(survivors) == ncclSuccess ? "" : "destroy";
  });
  CHECK(results[0] == "");
  CHECK(results[1] == "");
}

TEST_CASE("AllReduce gives the same bits on every rank, run after run") {
  for (const char* algorithm : {"auto", "ring", "one-hop", "recursive", "all-pairs", "binomial"}) {
    ::setenv("SCCL_ALGO", algorithm, 1);
    for (const Mode mode : modes())
      for (const std::size_t count : {1u, 100u, 3000u, 50001u}) {
        INFO(algorithm << " " << name(mode) << " " << count);
        const auto results = run_world(mode, 5, [&](int rank, ncclComm_t comm) -> std::string {
          std::string bits;
          for (int repeat = 0; repeat < 2; ++repeat) {
            std::mt19937 random(static_cast<unsigned>(rank) + 1);
            std::uniform_real_distribution<float> values(-1000.0f, 1000.0f);
            std::vector<float> data(count);
            for (float& value : data) value = values(random);
            if (ncclAllReduce(data.data(), data.data(), count, ncclFloat32, ncclSum, comm, nullptr) != ncclSuccess)
              return last_error();
            const std::string now(reinterpret_cast<const char*>(data.data()), count * sizeof(float));
            if (repeat > 0 && now != bits) return "two runs differ";
            bits = now;
          }
          return bits;
        });
        for (const std::string& result : results) {
          CHECK(result.size() == count * sizeof(float));
          CHECK((result == results.front()));
        }
      }
  }
  ::unsetenv("SCCL_ALGO");
}
