// Many ranks, forbidden system calls, signals: surroundings in which calls must still be right.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <cstddef>

#include "world.h"

using namespace api_test;

namespace {

std::string all_reduce_is_right(int ranks, std::size_t count, ncclComm_t comm) {
  std::vector<float> data(count, 1.0f);
  if (ncclAllReduce(data.data(), data.data(), count, ncclFloat32, ncclSum, comm, nullptr) != ncclSuccess)
    return ncclGetLastError(nullptr);
  for (const float value : data)
    if (value != static_cast<float>(ranks)) return "wrong sum";
  return "";
}

// From now on process_vm_readv and process_vm_writev are refused in this process.
bool forbid_peer_memory() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{sizeof filter / sizeof filter[0], filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

void ignore(int) {}

// Every system call of this process is interrupted again and again.
void start_signal_storm() {
  struct sigaction action {};
  action.sa_handler = ignore;  // without SA_RESTART
  ::sigaction(SIGALRM, &action, nullptr);
  const itimerval every{{0, 500}, {0, 500}};
  ::setitimer(ITIMER_REAL, &every, nullptr);
}

void stop_signal_storm() {
  const itimerval never{};
  ::setitimer(ITIMER_REAL, &never, nullptr);
}

}  // namespace

TEST_CASE("64 ranks complete an AllReduce of 1 MB", "[processes]") {
  CHECK(failures(run_world(Mode::processes, 64, [](int, ncclComm_t comm) {
          return all_reduce_is_right(64, (1 << 20) / sizeof(float), comm);
        })) == "");
}

TEST_CASE("a rank that may not read its peers' memory makes all use slots", "[processes]") {
  const auto results = run_bare_world(Mode::processes, 3, [](int rank, const ncclUniqueId& id) -> std::string {
    if (rank == 1 && !forbid_peer_memory()) return "";  // a kernel without seccomp: nothing to test
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 3, id, rank) != ncclSuccess) return ncclGetLastError(nullptr);
    std::string result = all_reduce_is_right(3, 1000003, comm);
    ncclCommDestroy(comm);
    return result;
  });
  CHECK(failures(results) == "");
}

TEST_CASE("signals interrupt nothing but system calls", "[processes]") {
  const auto results = run_bare_world(Mode::processes, 3, [](int rank, const ncclUniqueId& id) -> std::string {
    start_signal_storm();
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 3, id, rank) != ncclSuccess) return ncclGetLastError(nullptr);
    std::string result;
    for (int repeat = 0; repeat < 20 && result.empty(); ++repeat)
      for (const std::size_t count : {1u, 5000u, 700001u})
        if (result.empty()) result = all_reduce_is_right(3, count, comm);
    stop_signal_storm();
    ncclCommDestroy(comm);
    return result;
  });
  CHECK(failures(results) == "");
}

TEST_CASE("communicators of one process live side by side", "[processes]") {
  const auto results = run_bare_world(Mode::processes, 2, [](int rank, const ncclUniqueId& id) -> std::string {
    ncclComm_t first = nullptr;
    if (ncclCommInitRank(&first, 2, id, rank) != ncclSuccess) return ncclGetLastError(nullptr);
    std::vector<ncclComm_t> more;
    for (int i = 0; i < 10; ++i) {
      ncclUniqueId next{};
      if (rank == 0) ncclGetUniqueId(&next);
      if (ncclBroadcast(&next, &next, sizeof next, ncclUint8, 0, first, nullptr) != ncclSuccess)
        return "broadcast of the id";
      more.push_back(nullptr);
      if (ncclCommInitRank(&more.back(), 2, next, rank) != ncclSuccess) return ncclGetLastError(nullptr);
    }
    std::string result;
    for (ncclComm_t comm : more)
      if (result.empty()) result = all_reduce_is_right(2, 100000, comm);
    for (ncclComm_t comm : more) ncclCommDestroy(comm);
    ncclCommDestroy(first);
    return result;
  });
  CHECK(failures(results) == "");
}
