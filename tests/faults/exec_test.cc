// Processes that go on as another program, and processes that leave children behind.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <new>
#include <string>
#include <vector>

#include "sandbox.h"
#include "world.h"

using namespace api_test;
using namespace faults_test;

namespace {

struct Board {
  std::atomic<int> told{0};    // ranks whose call has returned
  std::atomic<int> hidden{0};  // the child lived until its limit, and nobody had been told
};

Board* new_board() {
  void* memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return new (memory) Board;
}

void become_another_program() { ::execl("/bin/sleep", "sleep", "3", nullptr); }

// A child that lives until ranks 0 and 2 have been told, or for ten seconds.
void leave_child(Board& board) {
  if (::fork() != 0) return;
  for (int i = 0; i < 1000 && board.told < 2; ++i) ::usleep(10000);
  if (board.told < 2) board.hidden = 1;
  ::_exit(0);
}

// What ranks 0 and 2 are told of rank 1, which ends while they wait for it.
std::string told_of(Board& board, const std::function<void()>& end) {
  const auto results = run_bare_world(Mode::processes, 3, [&](int rank, const ncclUniqueId& id) -> std::string {
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 3, id, rank) != ncclSuccess) return ncclGetLastError(nullptr);
    std::vector<float> data(50000, 1.0f);
    const auto call = [&] {
      return ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, nullptr);
    };
    if (call() != ncclSuccess) return "the first call failed";
    if (rank == 1) end();
    const std::string text = call() == ncclSuccess ? "the call succeeded" : ncclGetLastError(nullptr);
    ++board.told;
    ncclCommAbort(comm);
    return text;
  });
  return results[0] + (board.hidden != 0 ? " (hidden by the child)" : "");
}

}  // namespace

TEST_CASE("a rank that calls exec is named by its peers, who would wait for it for ever", "[processes]") {
  Board* const board = new_board();
  CHECK_THAT(told_of(*board, become_another_program),
             Catch::Contains("rank 1 (process") && Catch::Contains("replaced its program (exec)"));
}

TEST_CASE("a child that was forked before does not hide its parent's exec", "[processes]") {
  Board* const board = new_board();
  CHECK_THAT(told_of(*board,
                     [board] {
                       leave_child(*board);
                       become_another_program();
                     }),
             Catch::Contains("replaced its program (exec)") && !Catch::Contains("hidden"));
}

TEST_CASE("a forked child does not hide its parent's death where there are no pidfds", "[processes]") {
  Board* const board = new_board();
  CHECK_THAT(in_child([board] {
               forbid(SYS_pidfd_open);
               return told_of(*board, [board] {
                 leave_child(*board);
                 ::raise(SIGKILL);
               });
             }),
             Catch::Equals("") || (Catch::Contains("rank 1 (process") && !Catch::Contains("hidden")));
}
