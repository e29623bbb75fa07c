// The process that made the unique id fails in init itself and ends at once: the others learn what it failed of.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <thread>

#include "sandbox.h"
#include "world.h"

using namespace api_test;
using namespace faults_test;

namespace {

struct Board {
  ncclUniqueId id{};
  std::atomic<bool> made{false};
};

// What rank 1 reads when rank 0, whose process holds the root, changes its surroundings before init.
std::string words(const std::function<void()>& change, int ranks_of_the_first) {
  void* const memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Board& board = *new (memory) Board;
  const auto results = run_bare_world(Mode::processes, 2, [&](int rank, const ncclUniqueId&) -> std::string {
    ::setenv("SCCL_INIT_TIMEOUT_MS", "20000", 1);
    if (rank == 0) {
      if (ncclGetUniqueId(&board.id) != ncclSuccess) return "no id";
      board.made = true;
      change();
    }
    while (!board.made) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ncclComm_t comm = nullptr;
    const int ranks = rank == 0 ? ranks_of_the_first : 2;
    const ncclResult_t result = ncclCommInitRank(&comm, ranks, board.id, rank);
    return result == ncclSuccess ? "success" : ncclGetLastError(nullptr);
  });
  ::munmap(memory, sizeof(Board));
  return results[1];
}

}  // namespace

TEST_CASE("the cause that ended the root's own process reaches the others", "[processes]") {
  for (int repeat = 0; repeat < 5; ++repeat) {
    CHECK_THAT(words([] { forbid(SYS_memfd_create); }, 2), Catch::Contains("memfd_create"));
    CHECK_THAT(words([] { limit(RLIMIT_FSIZE, 4096); }, 2), Catch::Contains("ulimit -f"));
    CHECK_THAT(words([] {}, 3), Catch::Contains("was started for"));
  }
}
