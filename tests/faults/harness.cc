#include "harness.h"

#include <dirent.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <thread>

#include "id_process.h"

namespace faults_test {
namespace {

using namespace std::chrono_literals;

constexpr int kMostRanks = 64;
constexpr std::chrono::seconds kPatience{120};  // a busy machine under a sanitizer is slow, not stuck

enum Phase : int { starting, ready, in_moment, after_moment, recovering, finished };

double now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct Cell {
  std::atomic<int> phase{starting};
  int result = 0;
  double returned_at = 0;
  char text[1024] = {};
  char afterwards[1024] = {};
};

// Shared by the parent and all ranks.
struct Board {
  Cell cells[kMostRanks];
  ncclUniqueId first{};
  ncclUniqueId second{};
  std::atomic<int> second_ready{0};
  std::atomic<int> go{0};
  double struck_at = 0;  // by the victim itself or the parent; read when all have ended
};

Board* new_board() {
  void* memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : new (memory) Board;
}

void put(char (&to)[1024], const std::string& text) { std::snprintf(to, sizeof to, "%s", text.c_str()); }

template <typename Done>
bool wait_until(Done&& done, std::chrono::milliseconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(200us);
  }
  return true;
}

std::size_t entries_of(const char* folder) {
  DIR* opened = ::opendir(folder);
  if (opened == nullptr) return 0;
  std::size_t count = 0;
  while (::readdir(opened) != nullptr) ++count;
  ::closedir(opened);
  return count;
}

// One rank's life.
class RankProcess {
 public:
  RankProcess(const Plan& plan, int rank, Board& board)
      : plan_(plan), rank_(rank), board_(board), cell_(board.cells[rank]) {}

  [[noreturn]] void live() {
    for (const auto* variables : {&plan_.moment.environment, &plan_.environment})
      for (const auto& [name, value] : *variables) ::setenv(name.c_str(), value.c_str(), 1);
    const Census before = census();
    go_through_moment();
    if (is_victim() && plan_.fault != Fault::stop) {
      cell_.phase = finished;
      ::_exit(0);
    }
    std::string wrong;
    if (plan_.recovery != Plan::Recovery::none && plan_.fault != Fault::stop) {
      cell_.phase = recovering;
      wrong = recover();
    }
    if (failed_ != nullptr) ncclCommAbort(failed_);
    wrong += settled_census(before).difference(before);
    put(cell_.afterwards, wrong);
    cell_.phase = finished;
    ::_exit(0);
  }

 private:
  bool is_victim() const { return rank_ == plan_.victim; }

  void go_through_moment() {
    ncclComm_t comm = nullptr;
    ncclResult_t result = ncclSuccess;
    if (!plan_.moment.makes_communicator) result = ncclCommInitRank(&comm, plan_.ranks, board_.first, rank_);
    cell_.phase = ready;
    while (board_.go == 0) std::this_thread::sleep_for(50us);
    cell_.phase = in_moment;
    if (plan_.moment.makes_communicator && result == ncclSuccess)
      result = ncclCommInitRank(&comm, plan_.ranks, board_.first, rank_);
    // After init come calls, so that a victim that died behind the others' backs is met.
    std::mt19937 random(plan_.seed);
    // Early enough that rounds are left when the strike shows.
    const int strike_round = static_cast<int>(random() % static_cast<unsigned>(std::max(1, plan_.moment.rounds / 4)));
    std::thread aborter;
    // A kill comes when the parent gets to it, and an abort when its thread runs, however fast the calls are.
    const bool until_failed = plan_.fault == Fault::kill || plan_.fault == Fault::abort;
    for (int round = 0; result == ncclSuccess && (until_failed || round < plan_.moment.rounds); ++round) {
      const bool strike = is_victim() && round == strike_round;
      if (strike && strike_self(comm, aborter)) break;
      result = plan_.moment.call(rank_, plan_.ranks, comm, strike && plan_.fault == Fault::mismatch ? 1 : 0);
    }
    cell_.returned_at = now();
    cell_.result = result;
    if (result != ncclSuccess) put(cell_.text, ncclGetLastError(nullptr));
    cell_.phase = after_moment;
    if (aborter.joinable())
      aborter.join();
    else if (comm != nullptr && result != ncclSuccess && plan_.recovery == Plan::Recovery::shrink)
      failed_ = comm;
    else if (comm != nullptr && !(is_victim() && plan_.fault == Fault::leave))
      result == ncclSuccess ? ncclCommDestroy(comm) : ncclCommAbort(comm);
  }

  // True when the victim makes no further call.
  bool strike_self(ncclComm_t comm, std::thread& aborter) {
    if (plan_.fault == Fault::kill || plan_.fault == Fault::stop) return false;
    board_.struck_at = now();
    if (plan_.fault == Fault::exit) std::_Exit(0);
    if (plan_.fault == Fault::leave) {
      ncclCommDestroy(comm);
      return true;
    }
    if (plan_.fault == Fault::abort)
      aborter = std::thread([this, comm] {
        std::this_thread::sleep_for(
            std::chrono::microseconds(plan_.seed * 37u % static_cast<unsigned>(plan_.abort_within_us)));
        board_.struck_at = now();
        ncclCommAbort(comm);
      });
    return false;
  }

  ncclResult_t make_communicator_of_survivors(ncclComm_t& comm) {
    if (plan_.recovery == Plan::Recovery::shrink) {
      if (failed_ == nullptr) return ncclInvalidUsage;
      int victim = plan_.victim;
      return ncclCommShrink(failed_, &victim, 1, &comm, nullptr, NCCL_SHRINK_ABORT);
    }
    const int lowest = plan_.victim == 0 ? 1 : 0;
    if (rank_ == lowest) {
      if (const ncclResult_t made = ncclGetUniqueId(&board_.second); made != ncclSuccess) return made;
      board_.second_ready = 1;
    }
    if (!wait_until([&] { return board_.second_ready != 0; }, kPatience)) return ncclSystemError;
    return ncclCommInitRank(&comm, plan_.ranks - 1, board_.second, rank_ > plan_.victim ? rank_ - 1 : rank_);
  }

  std::string recover() {
    ncclComm_t comm = nullptr;
    const int survivors = plan_.ranks - 1;
    if (make_communicator_of_survivors(comm) != ncclSuccess)
      return std::string("second init: ") + ncclGetLastError(nullptr);
    int rank = 0;
    ncclCommUserRank(comm, &rank);
    std::string wrong;
    for (const std::size_t count : {std::size_t{5}, std::size_t{200001}}) {
      std::vector<float> data(count, static_cast<float>(rank + 1));
      if (ncclAllReduce(data.data(), data.data(), count, ncclFloat32, ncclSum, comm, nullptr) != ncclSuccess)
        wrong += std::string("second communicator: ") + ncclGetLastError(nullptr);
      const auto sum = static_cast<float>(survivors * (survivors + 1) / 2);
      if (std::any_of(data.begin(), data.end(), [&](float value) { return value != sum; })) wrong += "wrong sum. ";
    }
    if (ncclCommDestroy(comm) != ncclSuccess) wrong += std::string("second destroy: ") + ncclGetLastError(nullptr);
    return wrong;
  }

  const Plan& plan_;
  int rank_;
  Board& board_;
  Cell& cell_;
  ncclComm_t failed_ = nullptr;  // kept for a Shrink
};

class World {
 public:
  World(const Plan& plan, Board& board) : plan_(plan), board_(board), random_(plan.seed) {}

  Outcome run() {
    const sccl_test::IdProcess root;
    if (!root.problem().empty()) return {{}, true, root.problem()};
    board_.first = root.id();
    for (int rank = 0; rank < plan_.ranks; ++rank) start(rank);
    Outcome outcome;
    const bool begun = wait_until([&] { return all_reached(ready); }, kPatience);
    board_.go = 1;
    if (begun) strike();
    outcome.hung = !begun || !wait_until([&] { return all_reached(finished); }, kPatience);
    if (outcome.hung) outcome.places = places();
    end_all();
    for (int rank = 0; rank < plan_.ranks; ++rank) outcome.ranks.push_back(report(rank));
    return outcome;
  }

 private:
  void start(int rank) {
    std::fflush(nullptr);
    const pid_t process = ::fork();
    if (process == 0) RankProcess(plan_, rank, board_).live();
    processes_.push_back(process);
  }

  bool is_gone(int rank) const {
    return rank == plan_.victim && (plan_.fault == Fault::kill || plan_.fault == Fault::exit);
  }

  bool all_reached(int phase) {
    for (int rank = 0; rank < plan_.ranks; ++rank)
      if (board_.cells[rank].phase < phase && !(is_gone(rank) && board_.go != 0)) return false;
    return true;
  }

  void strike() {
    if (plan_.fault != Fault::kill && plan_.fault != Fault::stop) return;
    const pid_t victim = processes_[static_cast<std::size_t>(plan_.victim)];
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 20000));
    board_.struck_at = now();
    ::kill(victim, plan_.fault == Fault::kill ? SIGKILL : SIGSTOP);
    if (plan_.fault == Fault::kill) return;
    std::this_thread::sleep_for(300ms);
    ::kill(victim, SIGCONT);
  }

  std::string places() const {
    static constexpr const char* kNames[] = {"starting",         "ready",      "in the moment",
                                             "after the moment", "recovering", "finished"};
    std::string all;
    for (int rank = 0; rank < plan_.ranks; ++rank)
      all += "rank " + std::to_string(rank) + " " + kNames[board_.cells[rank].phase] + "; ";
    return all;
  }

  void end_all() {
    for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
      if (board_.cells[rank].phase != finished) ::kill(processes_[rank], SIGKILL);
      int status = 0;
      ::waitpid(processes_[rank], &status, 0);
      const bool expected_end = WIFEXITED(status) && WEXITSTATUS(status) == 0;
      if (!expected_end && !is_gone(static_cast<int>(rank)))
        put(board_.cells[rank].afterwards, "ended with status " + std::to_string(status));
    }
  }

  RankReport report(int rank) const {
    const Cell& cell = board_.cells[rank];
    return {static_cast<ncclResult_t>(cell.result), cell.text, cell.returned_at - board_.struck_at, cell.afterwards,
            cell.phase == finished};
  }

  const Plan& plan_;
  Board& board_;
  std::mt19937 random_;
  std::vector<pid_t> processes_;
};

}  // namespace

const char* name(Fault fault) {
  switch (fault) {
    case Fault::kill:
      return "kill";
    case Fault::stop:
      return "stop";
    case Fault::exit:
      return "exit";
    case Fault::abort:
      return "abort";
    case Fault::leave:
      return "leave";
    case Fault::mismatch:
      return "mismatch";
  }
  return "";
}

Census census() {
  Census counted;
  counted.descriptors = entries_of("/proc/self/fd");
  counted.threads = entries_of("/proc/self/task");
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) counted.segments += line.find("memfd:sccl") != std::string::npos;
  return counted;
}

std::string Census::difference(const Census& before) const {
  std::string text;
  const auto compare = [&](const char* what, std::size_t earlier, std::size_t later) {
    if (later > earlier) text += std::to_string(later - earlier) + " more " + what + ". ";
  };
  compare("descriptors", before.descriptors, descriptors);
  compare("threads", before.threads, threads);
  compare("segments", before.segments, segments);
  return text;
}

Census settled_census(const Census& before) {
  Census counted;
  wait_until([&] { return (counted = census()).difference(before).empty(); }, 13s);
  return counted;
}

Outcome run(const Plan& plan) {
  Board* const board = new_board();
  if (board == nullptr) return {{}, true, "no shared memory for the test"};
  Outcome outcome = World(plan, *board).run();
  ::munmap(board, sizeof(Board));
  return outcome;
}

}  // namespace faults_test
