// Random collectives and splits beside kills, aborts, disagreements, stops (SIGSTOP for 1 to 30 s), exec and forks, for
// as long as asked: nothing may be lost, wrong, hang or grow. Usage: soak [SECONDS] [RANKS] [SEED] [LONGEST_STOP_S]
//
// Rounds: in each, all ranks (long-lived processes) make a communicator and run one random script, the same at all. In
// most rounds something strikes one rank in the middle:
//
//   kill, exec     the others must get an error, and go on without that rank through ncclCommShrink; its process is
//                  replaced for the next round. A child that it forked before lives on for a while.
//   abort, mismatch  the others must get an error
//   stop, fork     nobody may notice anything but the time
#include <dirent.h>
#include <nccl_shim/nccl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostRanks = 64;
constexpr int kCallsPerRound = 40;
constexpr std::chrono::seconds kRoundLimit{60};

enum class Fault { none, kill, abort, mismatch, stop, exec, fork };
constexpr int kFaults = 7;
constexpr const char* kFaultNames[kFaults] = {"none", "kill", "abort", "mismatch", "stop", "exec", "fork"};

bool ends_process(Fault fault) { return fault == Fault::kill || fault == Fault::exec; }
bool goes_unnoticed(Fault fault) { return fault == Fault::none || fault == Fault::stop || fault == Fault::fork; }

struct Report {
  std::atomic<int> round{0};  // the last that this rank has finished; stored (release) after the rest
  std::atomic<int> began{0};  // the last whose communicator it has made
  std::atomic<bool> well{true};
  char text[400] = {};
  long calls = 0;
  long resident_kb = 0;
  int descriptors = 0;
};

// Shared by all processes.
struct Board {
  std::atomic<int> round{0};  // stored (release) after id and seed, loaded (acquire) before them
  ncclUniqueId id;
  unsigned seed = 0;
  int ranks = 0;
  Report reports[kMostRanks];
};

struct Plan {
  Fault fault = Fault::none;
  int victim = 0;
  int at_call = 0;
  bool leaves_child = false;  // before it is killed or calls exec
  double stop_share = 0;      // of the longest stop
};

Plan plan_of(unsigned seed, int ranks) {
  std::mt19937 random(seed * 7919u + 1);
  Plan plan;
  plan.fault = static_cast<Fault>(std::discrete_distribution<int>({36, 14, 12, 8, 6, 12, 12})(random));
  plan.victim = std::uniform_int_distribution<int>(0, ranks - 1)(random);
  plan.at_call = std::uniform_int_distribution<int>(0, kCallsPerRound - 1)(random);
  plan.leaves_child = random() % 2 == 0;
  plan.stop_share = std::uniform_real_distribution<double>(0, 1)(random);
  return plan;
}

struct Failed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void require(bool condition, const std::string& what) {
  if (!condition) throw Failed(what + ": " + ncclGetLastError(nullptr));
}

// One random collective with a result that is easily told; every rank draws the same from `random`.
ncclResult_t random_collective(std::mt19937& random, int rank, int ranks, ncclComm_t comm, std::size_t extra) {
  const int kind = std::uniform_int_distribution<int>(0, 4)(random);
  const double exponent = std::uniform_real_distribution<double>(0, 19)(random);
  const std::size_t count = static_cast<std::size_t>(std::exp2(exponent)) + extra;
  const int root = std::uniform_int_distribution<int>(0, ranks - 1)(random);
  const auto all = static_cast<std::size_t>(ranks);
  const auto own = static_cast<int>(rank + 1);
  static std::vector<int> in;
  static std::vector<int> out;
  in.assign(count * all, own);
  out.assign(count * all, -1);
  ncclResult_t result = ncclInternalError;
  const auto right = [&](std::size_t begin, std::size_t end, int value) {
    for (std::size_t i = begin; i < end; ++i)
      if (out[i] != value) throw Failed("wrong data in collective " + std::to_string(kind));
  };
  const int sum = ranks * (ranks + 1) / 2;
  switch (kind) {
    case 0:
      result = ncclAllReduce(in.data(), out.data(), count, ncclInt32, ncclSum, comm, nullptr);
      if (result == ncclSuccess) right(0, count, sum);
      break;
    case 1:
      result = ncclAllGather(in.data(), out.data(), count, ncclInt32, comm, nullptr);
      for (std::size_t from = 0; result == ncclSuccess && from < all; ++from)
        right(from * count, (from + 1) * count, static_cast<int>(from) + 1);
      break;
    case 2:
      result = ncclReduceScatter(in.data(), out.data(), count, ncclInt32, ncclSum, comm, nullptr);
      if (result == ncclSuccess) right(0, count, sum);
      break;
    case 3:
      result = ncclBroadcast(in.data(), out.data(), count, ncclInt32, root, comm, nullptr);
      if (result == ncclSuccess) right(0, count, root + 1);
      break;
    default:
      result = ncclAlltoAll(in.data(), out.data(), count, ncclInt32, comm, nullptr);
      for (std::size_t from = 0; result == ncclSuccess && from < all; ++from)
        right(from * count, (from + 1) * count, static_cast<int>(from) + 1);
  }
  return result;
}

class Round {
 public:
  Round(const Board& board, int rank)
      : ranks_(board.ranks), rank_(rank), seed_(board.seed), plan_(plan_of(seed_, ranks_)) {
    require(ncclCommInitRank(&world_, ranks_, board.id, rank_) == ncclSuccess, "init");
  }

  long run() {
    std::mt19937 random(seed_);
    bool failed = false;
    for (int call = 0; call < kCallsPerRound && !failed; ++call) {
      const bool strikes = plan_.fault != Fault::none && call == plan_.at_call;
      if (strikes && rank_ == plan_.victim) strike();
      if (strikes && rank_ == plan_.victim && plan_.fault == Fault::abort) {
        require(ncclCommAbort(world_) == ncclSuccess, "abort");
        return calls_;
      }
      const bool other_count = strikes && rank_ == plan_.victim && plan_.fault == Fault::mismatch;
      const ncclResult_t result =
          call % 8 == 7 ? split(random) : random_collective(random, rank_, ranks_, world_, other_count ? 1 : 0);
      ++calls_;
      if (result == ncclSuccess) continue;
      // Not "at or after the fault": a rank that is behind may learn of the fault in an earlier call.
      require(!goes_unnoticed(plan_.fault), std::string("an error with ") + kFaultNames[static_cast<int>(plan_.fault)] +
                                                " in call " + std::to_string(call));
      failed = true;
    }
    finish(failed);
    return calls_;
  }

 private:
  // What ends this process, or forks it.
  void strike() const {
    if (plan_.fault == Fault::fork || (ends_process(plan_.fault) && plan_.leaves_child)) leave_child();
    if (plan_.fault == Fault::kill) ::raise(SIGKILL);
    if (plan_.fault == Fault::exec) {
      ::execl("/bin/sleep", "sleep", "2", nullptr);
      ::_exit(1);
    }
  }

  // A helper, as data loaders fork them: it computes for a while and knows nothing of communicators.
  static void leave_child() {
    if (::fork() != 0) return;
    std::vector<int> own(100000, 1);
    for (int i = 0; i < 300; ++i) {
      own[static_cast<std::size_t>(i)] += i;
      ::usleep(10000);
    }
    ::_exit(0);
  }

  ncclResult_t split(std::mt19937& random) {
    ncclComm_t child = nullptr;
    const ncclResult_t result = ncclCommSplit(world_, rank_ % 2, -rank_, &child, nullptr);
    const unsigned inner_seed = random();
    if (result != ncclSuccess) return result;
    int rank = 0;
    int ranks = 0;
    require(ncclCommUserRank(child, &rank) == ncclSuccess && ncclCommCount(child, &ranks) == ncclSuccess, "queries");
    std::mt19937 inner(inner_seed + static_cast<unsigned>(rank_ % 2));
    require(random_collective(inner, rank, ranks, child, 0) == ncclSuccess, "a call of a split communicator");
    require(ncclCommDestroy(child) == ncclSuccess, "destroy of a split communicator");
    return ncclSuccess;
  }

  void finish(bool failed) {
    if (goes_unnoticed(plan_.fault)) {
      require(ncclCommDestroy(world_) == ncclSuccess, "destroy");
      return;
    }
    // The last calls of a round may need nothing of the victim; then its fault goes unnoticed here.
    if (ends_process(plan_.fault)) {
      ncclComm_t rest = nullptr;
      require(ncclCommShrink(world_, &plan_.victim, 1, &rest, nullptr, NCCL_SHRINK_ABORT) == ncclSuccess, "shrink");
      std::mt19937 random(seed_ + 1);
      const int rank = rank_ > plan_.victim ? rank_ - 1 : rank_;
      for (int i = 0; i < 5; ++i)
        require(random_collective(random, rank, ranks_ - 1, rest, 0) == ncclSuccess, "a call after shrink");
      require(ncclCommDestroy(rest) == ncclSuccess, "destroy after shrink");
    }
    require((failed || ends_process(plan_.fault) ? ncclCommAbort : ncclCommDestroy)(world_) == ncclSuccess, "end");
  }

  int ranks_;
  int rank_;
  unsigned seed_;
  Plan plan_;
  ncclComm_t world_ = nullptr;
  long calls_ = 0;
};

int open_descriptors() {
  int count = 0;
  if (DIR* folder = ::opendir("/proc/self/fd")) {
    while (::readdir(folder) != nullptr) ++count;
    ::closedir(folder);
  }
  return count;
}

long resident_kb() {
  long pages = 0;
  long resident = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
    std::fclose(file);
  }
  return resident * ::sysconf(_SC_PAGESIZE) / 1024;
}

[[noreturn]] void rank_main(Board& board, int rank, int first_round) {
  Report& report = board.reports[rank];
  for (int round = first_round;; ++round) {
    while (board.round.load(std::memory_order_acquire) < round) {
      if (::getppid() == 1) ::_exit(1);
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    try {
      Round made(board, rank);
      report.began.store(round, std::memory_order_release);
      report.calls += made.run();
    } catch (const std::exception& error) {
      std::snprintf(report.text, sizeof report.text, "rank %d, round %d, seed %u: %s", rank, round, board.seed,
                    error.what());
      report.well.store(false, std::memory_order_release);
    }
    report.resident_kb = resident_kb();
    report.descriptors = open_descriptors();
    report.round.store(round, std::memory_order_release);
  }
}

class Soak {
 public:
  Soak(int ranks, unsigned seed, double longest_stop_s) : seed_(seed), longest_stop_s_(longest_stop_s) {
    void* memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("no shared memory");
    board_ = new (memory) Board;
    board_->ranks = ranks;
    for (int rank = 0; rank < ranks; ++rank) processes_.push_back(start(rank, 1));
  }
  ~Soak() {
    for (const pid_t process : processes_) {
      ::kill(process, SIGKILL);
      ::waitpid(process, nullptr, 0);
    }
  }

  bool round() {
    const int round = board_->round.load(std::memory_order_relaxed) + 1;
    if (ncclGetUniqueId(&board_->id) != ncclSuccess) return complain("ncclGetUniqueId");
    board_->seed = seed_ + static_cast<unsigned>(round);
    const Plan plan = plan_of(board_->seed, board_->ranks);
    board_->round.store(round, std::memory_order_release);
    ++faults_[static_cast<std::size_t>(plan.fault)];
    if (plan.fault == Fault::stop) stop(plan, round);
    const auto limit = Clock::now() + kRoundLimit;
    for (int rank = 0; rank < board_->ranks; ++rank) {
      Report& report = board_->reports[rank];
      const bool dies = ends_process(plan.fault) && rank == plan.victim;
      while (!dies && report.round.load(std::memory_order_acquire) < round) {
        if (Clock::now() > limit) return complain_of_hang(rank);
        if (::waitpid(processes_[static_cast<std::size_t>(rank)], nullptr, WNOHANG) != 0)
          return complain("rank " + std::to_string(rank) + " died, seed " + std::to_string(board_->seed));
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
      if (!report.well.load(std::memory_order_acquire)) return complain(report.text);
      if (dies) replace(rank, round + 1);
    }
    return true;
  }

  std::string faults() const {
    std::string text;
    for (int fault = 0; fault < kFaults; ++fault)
      text += (fault == 0 ? "" : ", ") + std::string(kFaultNames[fault]) + " " +
              std::to_string(faults_[static_cast<std::size_t>(fault)]);
    return text;
  }
  double stopped_s() const { return stopped_s_; }
  int rounds() const { return board_->round.load(std::memory_order_relaxed); }
  long calls() const {
    long sum = 0;
    for (int rank = 0; rank < board_->ranks; ++rank) sum += board_->reports[rank].calls;
    return sum;
  }
  // Of the ranks that were never killed, the largest.
  void usage(long& resident, int& descriptors) const {
    resident = 0;
    descriptors = 0;
    for (int rank = 0; rank < board_->ranks; ++rank) {
      resident = std::max(resident, board_->reports[rank].resident_kb);
      descriptors = std::max(descriptors, board_->reports[rank].descriptors);
    }
  }

 private:
  // Somewhere in the victim's round, for 1 s to the longest.
  void stop(const Plan& plan, int round) {
    const Report& report = board_->reports[plan.victim];
    while (report.began.load(std::memory_order_acquire) < round && report.well.load(std::memory_order_acquire))
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    std::this_thread::sleep_for(std::chrono::milliseconds(2 * plan.at_call));
    const pid_t process = processes_[static_cast<std::size_t>(plan.victim)];
    const double seconds = std::pow(longest_stop_s_, plan.stop_share);
    ::kill(process, SIGSTOP);
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    ::kill(process, SIGCONT);
    stopped_s_ += seconds;
  }

  pid_t start(int rank, int first_round) {
    std::fflush(nullptr);
    const pid_t process = ::fork();
    if (process == 0) rank_main(*board_, rank, first_round);
    return process;
  }

  void replace(int rank, int first_round) {
    ::waitpid(processes_[static_cast<std::size_t>(rank)], nullptr, 0);
    processes_[static_cast<std::size_t>(rank)] = start(rank, first_round);
  }

  // Often another rank has failed, and this rank waits for it.
  bool complain_of_hang(int rank) const {
    for (int other = 0; other < board_->ranks; ++other)
      if (const Report& report = board_->reports[other]; !report.well.load(std::memory_order_acquire))
        complain(report.text);
    return complain("rank " + std::to_string(rank) + " hangs, seed " + std::to_string(board_->seed));
  }

  static bool complain(const std::string& what) {
    std::printf("FAILED: %s\n", what.c_str());
    return false;
  }

  Board* board_;
  unsigned seed_;
  double longest_stop_s_;
  double stopped_s_ = 0;
  std::array<int, kFaults> faults_{};
  std::vector<pid_t> processes_;
};

}  // namespace

int main(int argc, char** argv) {
  const int seconds = argc > 1 ? std::atoi(argv[1]) : 60;
  const int ranks = argc > 2 ? std::atoi(argv[2]) : 8;
  const unsigned seed = argc > 3 ? static_cast<unsigned>(std::atoi(argv[3])) : std::random_device{}();
  const double longest_stop_s = argc > 4 ? std::atof(argv[4]) : 30;
  if (seconds < 1 || ranks < 3 || ranks > kMostRanks || longest_stop_s < 1) {
    std::fprintf(stderr, "usage: soak [SECONDS] [RANKS 3..%d] [SEED] [LONGEST_STOP_S]\n", kMostRanks);
    return 2;
  }
  std::printf("soak: %d ranks, %d s, seed %u\n", ranks, seconds, seed);
  Soak soak(ranks, seed, longest_stop_s);
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  constexpr int kWarmRounds = 20;
  long warm_kb = 0;
  int warm_descriptors = 0;
  auto next_line = Clock::now();
  bool well = true;
  while (well && Clock::now() < end) {
    well = soak.round();
    if (soak.rounds() == kWarmRounds) soak.usage(warm_kb, warm_descriptors);
    if (Clock::now() < next_line) continue;
    long now_kb = 0;
    int now_descriptors = 0;
    soak.usage(now_kb, now_descriptors);
    std::printf("%6d rounds %8ld calls, largest rank %ld MB, %d descriptors\n", soak.rounds(), soak.calls(),
                now_kb / 1024, now_descriptors);
    std::fflush(stdout);
    next_line = Clock::now() + std::chrono::seconds(30);
  }
  long end_kb = 0;
  int end_descriptors = 0;
  soak.usage(end_kb, end_descriptors);
  std::printf("%d rounds, %ld calls; resident %ld -> %ld MB, descriptors %d -> %d\n", soak.rounds(), soak.calls(),
              warm_kb / 1024, end_kb / 1024, warm_descriptors, end_descriptors);
  std::printf("faults: %s; %.0f s stopped\n", soak.faults().c_str(), soak.stopped_s());
  // Roots of communicators that failed linger for a while, each with a few sockets.
  const bool flat =
      soak.rounds() <= kWarmRounds || (end_kb < warm_kb + 32 * 1024 && end_descriptors <= warm_descriptors + 32);
  if (!flat) std::printf("FAILED: memory or descriptors grew\n");
  return well && flat ? 0 : 1;
}
