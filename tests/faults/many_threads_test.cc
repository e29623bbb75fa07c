// Many ranks in one process, and in few, with the descriptors that a process gets by default.
#include <sys/resource.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "sandbox.h"
#include "world.h"

using namespace api_test;
using namespace faults_test;

namespace {

std::string sum_of(int ranks, ncclComm_t comm) {
  float value = 1;
  if (ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr) != ncclSuccess)
    return ncclGetLastError(nullptr);
  return value == static_cast<float>(ranks) ? "" : "wrong sum";
}

// Ranks `first` to `last` of a communicator of `ranks`, each a thread.
std::string threads_of(int first, int last, int ranks, const ncclUniqueId& id) {
  std::vector<std::string> results(static_cast<std::size_t>(last - first));
  std::vector<std::thread> threads;
  for (int rank = first; rank < last; ++rank)
    threads.emplace_back([&, rank] {
      ncclComm_t comm = nullptr;
      std::string& result = results[static_cast<std::size_t>(rank - first)];
      if (ncclCommInitRank(&comm, ranks, id, rank) != ncclSuccess) {
        result = ncclGetLastError(nullptr);
        return;
      }
      result = sum_of(ranks, comm);
      ncclCommDestroy(comm);
    });
  for (std::thread& thread : threads) thread.join();
  return failures(results);
}

}  // namespace

TEST_CASE("128 threads make a communicator with 512 descriptors", "[processes]") {
  CHECK(in_child([]() -> std::string {
          limit(RLIMIT_NOFILE, 512);
          ncclUniqueId id;
          if (ncclGetUniqueId(&id) != ncclSuccess) return ncclGetLastError(nullptr);
          return threads_of(0, 128, 128, id);
        }) == "");
}

TEST_CASE("ncclCommInitAll makes a communicator of 200 ranks with 1024 descriptors", "[processes]") {
  CHECK(in_child([]() -> std::string {
          limit(RLIMIT_NOFILE, 1024);
          std::vector<ncclComm_t> comms(200);
          if (ncclCommInitAll(comms.data(), 200, nullptr) != ncclSuccess) return ncclGetLastError(nullptr);
          std::vector<float> values(200, 1.0f);
          ncclGroupStart();
          for (std::size_t i = 0; i < comms.size(); ++i)
            ncclAllReduce(&values[i], &values[i], 1, ncclFloat32, ncclSum, comms[i], nullptr);
          if (ncclGroupEnd() != ncclSuccess) return ncclGetLastError(nullptr);
          for (const ncclComm_t comm : comms) ncclCommDestroy(comm);
          for (const float value : values)
            if (value != 200) return "wrong sum";
          return "";
        }) == "");
}

TEST_CASE("processes of several threads, of different numbers, make a communicator", "[processes]") {
  const auto results = run_bare_world(Mode::processes, 3, [](int process, const ncclUniqueId& id) {
    const int first[] = {0, 1, 6, 20};
    return threads_of(first[process], first[process + 1], 20, id);
  });
  CHECK(failures(results) == "");
}

// A message carries 240 descriptors.
TEST_CASE("a process of 260 threads gives its descriptors in several messages", "[processes]") {
  const auto results = run_bare_world(Mode::processes, 2, [](int process, const ncclUniqueId& id) {
    return process == 0 ? threads_of(0, 260, 261, id) : threads_of(260, 261, 261, id);
  });
  CHECK(failures(results) == "");
}
