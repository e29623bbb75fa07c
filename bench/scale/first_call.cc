// What the first call of a collective costs where there are many ranks: planning, and memory that is touched for the
// first time; and what a later call costs. Usage: first_call [RANKS] [threads|processes] [CALL]
//
// With CALL, "AllReduce of 4 MB" for example, only that one is made.
// Ranks are processes, or threads of one. Before every call all ranks meet in a barrier of the benchmark's own; a call
// takes from there until the last rank has returned.
#include <linux/futex.h>
#include <nccl_shim/nccl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kCount = 10;  // elements, of each rank or for each

struct Board {
  std::atomic<int> arrived{0};
  std::atomic<int> rounds{0};  // in which all have arrived
  std::atomic<int> failed{0};
  std::atomic<long> cpu_us{0};  // that all ranks have used
  ncclUniqueId id;
};

struct Job {
  const char* name;
  std::function<ncclResult_t(const float*, float*, ncclComm_t)> call;
};

std::vector<Job> jobs() {
  return {
      {"AllReduce",
       [](const float* in, float* out, ncclComm_t comm) {
         return ncclAllReduce(in, out, kCount, ncclFloat32, ncclSum, comm, nullptr);
       }},
      {"AllReduce of 4 MB",
       [](const float* in, float* out, ncclComm_t comm) {
         return ncclAllReduce(in, out, 1000000, ncclFloat32, ncclSum, comm, nullptr);
       }},
      {"AllGather", [](const float* in, float* out,
                       ncclComm_t comm) { return ncclAllGather(in, out, kCount, ncclFloat32, comm, nullptr); }},
      {"ReduceScatter",
       [](const float* in, float* out, ncclComm_t comm) {
         return ncclReduceScatter(in, out, kCount, ncclFloat32, ncclSum, comm, nullptr);
       }},
      {"Broadcast", [](const float* in, float* out,
                       ncclComm_t comm) { return ncclBroadcast(in, out, kCount, ncclFloat32, 0, comm, nullptr); }},
      {"Reduce", [](const float* in, float* out,
                    ncclComm_t comm) { return ncclReduce(in, out, kCount, ncclFloat32, ncclSum, 0, comm, nullptr); }},
      {"Gather", [](const float* in, float* out,
                    ncclComm_t comm) { return ncclGather(in, out, kCount, ncclFloat32, 0, comm, nullptr); }},
      {"Scatter", [](const float* in, float* out,
                     ncclComm_t comm) { return ncclScatter(in, out, kCount, ncclFloat32, 0, comm, nullptr); }},
      {"AlltoAll", [](const float* in, float* out, ncclComm_t comm) {
         return ncclAlltoAll(in, out, kCount, ncclFloat32, comm, nullptr);
       }}};
}

// Returns when all ranks have called it as often. Who waits sleeps: the others need the cores.
void meet(Board& board, int ranks, int& round) {
  ++round;
  if (board.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == round * ranks) {
    board.rounds.store(round, std::memory_order_release);
    ::syscall(SYS_futex, &board.rounds, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    return;
  }
  for (int seen = 0; (seen = board.rounds.load(std::memory_order_acquire)) < round;) {
    const timespec span{0, 100000000};
    ::syscall(SYS_futex, &board.rounds, FUTEX_WAIT, seen, &span, nullptr, 0);
  }
}

long thread_cpu_us() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

struct Cost {
  double ms = 0;
  double cpu_ms = 0;  // of all ranks together: what it costs where nothing else runs, times the cores
};

Cost timed(Board& board, int ranks, int& round, const std::function<void()>& work) {
  board.cpu_us = 0;
  meet(board, ranks, round);
  const auto begin = Clock::now();
  const long cpu_us = thread_cpu_us();
  work();
  board.cpu_us += thread_cpu_us() - cpu_us;
  meet(board, ranks, round);
  const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  const double cpu_ms = static_cast<double>(board.cpu_us) * 1e-3;
  meet(board, ranks, round);
  return {ms, cpu_ms};
}

void live(Board& board, int rank, int ranks, const char* only) {
  int round = 0;
  ncclComm_t comm = nullptr;
  const auto check = [&](ncclResult_t result) {
    if (result == ncclSuccess) return;
    std::fprintf(stderr, "rank %d: %s\n", rank, ncclGetLastError(nullptr));
    board.failed = 1;
    std::_Exit(1);
  };
  const Cost init = timed(board, ranks, round, [&] { check(ncclCommInitRank(&comm, ranks, board.id, rank)); });
  if (rank == 0) std::printf("| init | %.0f | %.0f | |\n", init.ms, init.cpu_ms);
  const std::vector<float> in(std::max<std::size_t>(1000000, kCount * static_cast<std::size_t>(ranks)), 1);
  std::vector<float> out(in.size());
  for (const Job& job : jobs()) {
    if (only != nullptr && std::strcmp(only, job.name) != 0) continue;
    const auto once = [&] { return timed(board, ranks, round, [&] { check(job.call(in.data(), out.data(), comm)); }); };
    const Cost first = once();
    Cost later = once();
    for (int repeat = 0; repeat < 4; ++repeat) later.ms = std::min(later.ms, once().ms);
    if (rank == 0) std::printf("| %s | %.0f | %.0f | %.1f |\n", job.name, first.ms, first.cpu_ms, later.ms);
    if (rank == 0) std::fflush(stdout);
  }
  check(ncclCommDestroy(comm));
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 64;
  const bool as_threads = argc > 2 && std::strcmp(argv[2], "threads") == 0;
  const char* const only = argc > 3 ? argv[3] : nullptr;
  if (ranks < 1 || ranks > 1024) {
    std::fprintf(stderr, "usage: first_call [RANKS 1..1024] [threads|processes] [CALL]\n");
    return 2;
  }
  void* memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  Board& board = *new (memory) Board;
  std::printf("%d ranks as %s, %ld cores; milliseconds of the first call and of the best of 5 later ones\n\n", ranks,
              as_threads ? "threads" : "processes", ::sysconf(_SC_NPROCESSORS_ONLN));
  std::printf("| call | first | processor time of all ranks in it | later |\n|---|---|---|---|\n");
  std::fflush(stdout);
  if (as_threads) {
    if (ncclGetUniqueId(&board.id) != ncclSuccess) return 1;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&board, rank, ranks, only] { live(board, rank, ranks, only); });
    for (std::thread& thread : threads) thread.join();
    return 0;
  }
  // The id is rank 0's to make, so that no thread runs in the process that forks.
  std::vector<pid_t> children;
  std::atomic<int>* const made =
      new (::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
          std::atomic<int>(0);
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (rank == 0 && ncclGetUniqueId(&board.id) != ncclSuccess) ::_exit(1);
      if (rank == 0) made->store(1);
      while (made->load() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      live(board, rank, ranks, only);
      std::fflush(stdout);
      ::_exit(0);
    }
    children.push_back(child);
  }
  bool well = true;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    well = well && status == 0;
  }
  return well ? 0 : 1;
}
