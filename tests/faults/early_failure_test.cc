// A rank that fails in init before it has reached the root: the others learn of what, and need not wait for the
// deadline.
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "harness.h"
#include "sandbox.h"
#include "world.h"

using namespace api_test;
using namespace faults_test;

namespace {

// What three ranks get when rank 1 changes its surroundings before init. Those that would wait for the deadline get
// another text than those that are told.
std::vector<std::string> init_with(const std::function<void()>& change, bool blocking) {
  return run_bare_world(Mode::processes, 3, [&](int rank, const ncclUniqueId& id) -> std::string {
    ::setenv("SCCL_INIT_TIMEOUT_MS", "20000", 1);
    if (rank == 1) change();
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = blocking ? 1 : 0;
    ncclComm_t comm = nullptr;
    ncclResult_t result = ncclCommInitRankConfig(&comm, 3, id, rank, &config);
    while (result == ncclInProgress && ncclCommGetAsyncError(comm, &result) == ncclSuccess && result == ncclInProgress)
      ::usleep(1000);
    return result == ncclSuccess ? "success" : ncclGetLastError(nullptr);
  });
}

unsigned first_free() {
  const int copy = ::dup(0);
  ::close(copy);
  return static_cast<unsigned>(copy);
}

std::size_t virtual_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0;
  file >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

void check_told(const std::vector<std::string>& results, const char* cause) {
  CHECK_THAT(results[1], Catch::Contains(cause));
  for (const int other : {0, 2})
    CHECK_THAT(results[static_cast<std::size_t>(other)],
               Catch::Contains("rank 1 on host ") && Catch::Contains(" gave up: ") && Catch::Contains(cause));
}

}  // namespace

TEST_CASE("a rank without a descriptor for its socket tells the others", "[processes]") {
  for (const bool blocking : {true, false})
    for (const int spare : {0, 1, 2})
      check_told(init_with([&] { limit(RLIMIT_NOFILE, first_free() + static_cast<unsigned>(spare)); }, blocking),
                 "ulimit -n");
}

TEST_CASE("a rank that is refused memory or files tells the others", "[processes]") {
  check_told(init_with([] { forbid(SYS_memfd_create); }, true), "memfd_create");
  check_told(init_with([] { limit(RLIMIT_FSIZE, 4096); }, true), "ulimit -f");
}

TEST_CASE("a rank that gets no thread for an init in the background tells the others", "[processes]") {
  check_told(init_with(
                 [] {
                   forbid(SYS_clone3);
                   forbid(SYS_clone);
                 },
                 false),
             "ulimit -u");
}

// Memory for the stacks of one thread and a half, where a group of three ranks needs two.
TEST_CASE("a group of ranks for which the system has too few threads fails at once", "[processes]") {
  const std::string text = in_child([]() -> std::string {
    ::setenv("SCCL_INIT_TIMEOUT_MS", "20000", 1);
    ncclUniqueId id;
    if (ncclGetUniqueId(&id) != ncclSuccess) return ncclGetLastError(nullptr);
    constexpr std::size_t kStackBytes = std::size_t{1} << 30;
    pthread_attr_t attributes;
    ::pthread_attr_init(&attributes);
    ::pthread_attr_setstacksize(&attributes, kStackBytes);
    ::pthread_setattr_default_np(&attributes);
    limit(RLIMIT_AS, virtual_bytes() + kStackBytes + kStackBytes / 2);
    std::array<ncclComm_t, 3> comms{};
    ncclGroupStart();
    for (int rank = 0; rank < 3; ++rank) ncclCommInitRank(&comms[static_cast<std::size_t>(rank)], 3, id, rank);
    const auto begin = std::chrono::steady_clock::now();
    if (ncclGroupEnd() == ncclSuccess) return "success";
    const bool at_once = std::chrono::steady_clock::now() - begin < std::chrono::seconds(15);
    return at_once ? ncclGetLastError(nullptr) : "only after the deadline";
  });
  CHECK_THAT(text, Catch::Contains("ulimit -u"));
}
