// Communicators that are used in different orders by different ranks.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <thread>
#include <vector>

#include "world.h"

using namespace api_test;

namespace {

std::string log_path(int rank) {
  return "/tmp/sccl-crossed-test." + std::to_string(::getppid()) + "." + std::to_string(rank);
}

std::string text_of(const std::string& path) {
  std::string text;
  if (std::FILE* file = std::fopen(path.c_str(), "re")) {
    char buffer[4096];
    for (std::size_t count = 0; (count = std::fread(buffer, 1, sizeof buffer, file)) > 0;) text.append(buffer, count);
    std::fclose(file);
  }
  return text;
}

std::string contents(const std::string& path) {
  const std::string text = text_of(path);
  ::unlink(path.c_str());
  return text;
}

// Gives up after a minute: then the test tells what the logs hold.
void await_in_logs(std::initializer_list<int> ranks, const std::string& part) {
  const auto is_told = [&](int rank) { return text_of(log_path(rank)).find(part) != std::string::npos; };
  const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!std::all_of(ranks.begin(), ranks.end(), is_told) && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

ncclResult_t reduce(ncclComm_t comm) {
  static float value = 1;
  return ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr);
}

// Rank r calls communicators r, r+1, ... in turn, of `ranks` communicators of neighbours r and r+1. What it is told.
std::string call_in_circle(int rank, int ranks, const ncclUniqueId& id) {
  ::unsetenv("NCCL_DEBUG");
  ::setenv("NCCL_DEBUG_FILE", log_path(rank).c_str(), 1);
  ::setenv("SCCL_STALL_NOTICE_MS", "300", 1);
  ::setenv("SCCL_TIMEOUT_MS", "3000", 1);
  ncclComm_t world = nullptr;
  if (ncclCommInitRank(&world, ranks, id, rank) != ncclSuccess) return ncclGetLastError(nullptr);
  // Communicator k joins ranks k and k+1; each rank belongs to two of them.
  std::vector<ncclComm_t> comms(static_cast<std::size_t>(ranks), nullptr);
  for (int k = 0; k < ranks; ++k) {
    const bool member = rank == k || rank == (k + 1) % ranks;
    const std::string name = "circle " + std::to_string(k);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.commName = name.c_str();
    if (ncclCommSplit(world, member ? 0 : NCCL_SPLIT_NOCOLOR, 0, &comms[static_cast<std::size_t>(k)], &config) !=
        ncclSuccess)
      return ncclGetLastError(nullptr);
  }
  const auto first = static_cast<std::size_t>(rank);
  const std::size_t second = static_cast<std::size_t>(rank + ranks - 1) % comms.size();
  if (reduce(comms[first]) == ncclSuccess && reduce(comms[second]) == ncclSuccess) return "both calls succeeded";
  return contents(log_path(rank)) + " ERROR " + ncclGetLastError(nullptr);
}

}  // namespace

TEST_CASE("two ranks that use two communicators in opposite order are told, without a setting", "[processes]") {
  const auto results =
      run_bare_world(Mode::processes, 2, [](int rank, const ncclUniqueId& id) { return call_in_circle(rank, 2, id); });
  for (const std::string& text : results)
    CHECK_THAT(text, Catch::Matches("(.|\\n)*used in opposite order(.|\\n)* ERROR .*") &&
                         Catch::Contains("\"circle 0\"") && Catch::Contains("\"circle 1\"") &&
                         Catch::Contains("AllReduce"));
}

TEST_CASE("three ranks that wait for one another in a circle of communicators are told", "[processes]") {
  const auto results =
      run_bare_world(Mode::processes, 3, [](int rank, const ncclUniqueId& id) { return call_in_circle(rank, 3, id); });
  for (const std::string& text : results) CHECK_THAT(text, Catch::Contains("may be used in different orders"));
}

// Rank 2 is stopped while rank 0 waits for it in one communicator and rank 1, in another one, waits for rank 0. It goes
// on when both have been told.
TEST_CASE("a stopped process is told of, not the crossing that it seems to make", "[processes]") {
  const std::string kStopped = "is stopped by a signal or a debugger";
  int pipe_ends[2];
  REQUIRE(::pipe(pipe_ends) == 0);
  const auto results = run_bare_world(Mode::processes, 3, [&](int rank, const ncclUniqueId& id) -> std::string {
    ::unsetenv("NCCL_DEBUG");
    ::setenv("NCCL_DEBUG_FILE", log_path(rank).c_str(), 1);
    ::setenv("SCCL_STALL_NOTICE_MS", "300", 1);
    ncclComm_t world = nullptr, other = nullptr, far = nullptr;
    if (ncclCommInitRank(&world, 3, id, rank) != ncclSuccess) return ncclGetLastError(nullptr);
    if (ncclCommSplit(world, rank < 2 ? 0 : NCCL_SPLIT_NOCOLOR, 0, &other, nullptr) != ncclSuccess)
      return ncclGetLastError(nullptr);
    if (ncclCommSplit(world, rank != 1 ? 0 : NCCL_SPLIT_NOCOLOR, 0, &far, nullptr) != ncclSuccess)
      return ncclGetLastError(nullptr);
    if (rank == 2) {
      const pid_t own = ::getpid();
      if (::write(pipe_ends[1], &own, sizeof own) != sizeof own) return "no pipe";
      ::raise(SIGSTOP);
      return reduce(far) == ncclSuccess ? "" : ncclGetLastError(nullptr);
    }
    if (rank == 0) {
      pid_t stopped = 0;
      if (::read(pipe_ends[0], &stopped, sizeof stopped) != sizeof stopped) return "no pipe";
      std::thread goes_on([&] {
        await_in_logs({0, 1}, kStopped);
        ::kill(stopped, SIGCONT);
      });
      const ncclResult_t far_result = reduce(far);
      goes_on.join();
      if (far_result != ncclSuccess) return ncclGetLastError(nullptr);
    }
    if (reduce(other) != ncclSuccess) return ncclGetLastError(nullptr);
    return contents(log_path(rank));
  });
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
  CHECK(results[2] == "");
  for (int rank = 0; rank < 2; ++rank) {
    CHECK_THAT(results[static_cast<std::size_t>(rank)], Catch::Contains(kStopped));
    CHECK_THAT(results[static_cast<std::size_t>(rank)], !Catch::Contains("different orders"));
  }
}

TEST_CASE("a rank that is merely late is no crossing", "[processes]") {
  const auto results = run_bare_world(Mode::processes, 2, [](int rank, const ncclUniqueId& id) -> std::string {
    ::unsetenv("NCCL_DEBUG");
    ::setenv("NCCL_DEBUG_FILE", log_path(rank).c_str(), 1);
    ::setenv("SCCL_STALL_NOTICE_MS", "100", 1);
    ncclComm_t world = nullptr, child = nullptr;
    if (ncclCommInitRank(&world, 2, id, rank) != ncclSuccess) return ncclGetLastError(nullptr);
    if (ncclCommSplit(world, 0, 0, &child, nullptr) != ncclSuccess) return ncclGetLastError(nullptr);
    if (reduce(world) != ncclSuccess) return ncclGetLastError(nullptr);
    if (rank == 1) ::usleep(700000);
    if (reduce(child) != ncclSuccess || reduce(world) != ncclSuccess) return ncclGetLastError(nullptr);
    ncclCommDestroy(child);
    ncclCommDestroy(world);
    return contents(log_path(rank));
  });
  CHECK(failures(results) == "");
}
