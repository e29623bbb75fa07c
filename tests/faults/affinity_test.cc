// Init measures copies on two cores, and may move one of two ranks for that. The program's own threads stay where they
// are allowed to be.
#include <dlfcn.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <string>

#include "world.h"

using namespace api_test;

namespace {

std::atomic<bool> one_core{false};  // the library believes that all run on core 0
std::atomic<long> watched{0};       // thread
std::atomic<int> moves{0};          // of other threads
std::atomic<int> moves_of_watched{0};

long own_thread() { return ::syscall(SYS_gettid); }

}  // namespace

// In place of the C library's, for the library under test, too.
extern "C" __attribute__((visibility("default"))) int sched_getcpu() {
  static const auto real = reinterpret_cast<int (*)()>(::dlsym(RTLD_NEXT, "sched_getcpu"));
  return one_core ? 0 : real();
}

extern "C" __attribute__((visibility("default"))) int sched_setaffinity(pid_t thread, size_t bytes,
                                                                        const cpu_set_t* set) {
  static const auto real =
      reinterpret_cast<int (*)(pid_t, size_t, const cpu_set_t*)>(::dlsym(RTLD_NEXT, "sched_setaffinity"));
  const long moved = thread == 0 ? own_thread() : thread;
  ++(moved == watched ? moves_of_watched : moves);
  return real(thread, bytes, set);
}

TEST_CASE("init does not change the affinity of the thread that calls it", "[processes]") {
  const auto results = run_bare_world(Mode::processes, 2, [](int rank, const ncclUniqueId& id) -> std::string {
    watched = own_thread();
    one_core = true;
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return ncclGetLastError(nullptr);
    ncclCommDestroy(comm);
    if (moves_of_watched != 0) return "the caller was moved";
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    const bool may_move = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) > 1;
    return rank == 1 && may_move && moves == 0 ? "nothing was moved: the test shows nothing" : "";
  });
  CHECK(failures(results) == "");
}
