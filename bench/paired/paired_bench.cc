// One collective of floats under several settings in one run: a communicator for each setting, all in the same
// processes on the same buffers, served in turn in short blocks, in another order every round. What the machine does
// meanwhile hits all alike, so that the ratios within a round mean something where times do not. Usage: bench_paired
// COLLECTIVE RANKS ROUNDS BLOCK_US SIZE,SIZE,... SETTINGS ...
//   SETTINGS: "NAME=VALUE NAME=VALUE", in force while that communicator is made; may be empty. Sizes are those of the
//   larger buffer, in bytes.
// Prints "size,round,index of the settings,microseconds a call" for each block, the slowest rank's.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "nccl_shim/nccl.h"

namespace {

constexpr std::size_t kMostSettings = 64;

struct Shared {
  std::atomic<int> ready{0};
  ncclUniqueId ids[kMostSettings + 1];
};

void require(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, ncclGetLastError(nullptr));
  std::exit(1);
}

// Puts the settings into the environment, and takes them out at its end.
class Settings {
 public:
  explicit Settings(const std::string& text) {
    std::istringstream in(text);
    for (std::string word; in >> word;) {
      const std::size_t equals = word.find('=');
      if (equals == std::string::npos) {
        std::fprintf(stderr, "'%s' is no NAME=VALUE\n", word.c_str());
        std::exit(2);
      }
      names_.push_back(word.substr(0, equals));
      ::setenv(names_.back().c_str(), word.c_str() + equals + 1, 1);
    }
  }
  ~Settings() {
    for (const std::string& name : names_) ::unsetenv(name.c_str());
  }
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;

 private:
  std::vector<std::string> names_;
};

class Rank {
 public:
  Rank(int rank, int ranks, std::string collective) : rank_(rank), ranks_(ranks), collective_(std::move(collective)) {}

  void connect(Shared& shared, const std::vector<std::string>& settings) {
    if (rank_ == 0) {
      for (std::size_t i = 0; i <= settings.size(); ++i) require(ncclGetUniqueId(&shared.ids[i]), "ncclGetUniqueId");
      shared.ready.store(1);
    }
    while (shared.ready.load() == 0) ::usleep(100);
    for (std::size_t i = 0; i < settings.size(); ++i) {
      const Settings in_force(settings[i]);
      comms_.emplace_back();
      require(ncclCommInitRank(&comms_.back(), ranks_, shared.ids[i], rank_), "ncclCommInitRank");
    }
    require(ncclCommInitRank(&control_, ranks_, shared.ids[settings.size()], rank_), "ncclCommInitRank");
  }

  void measure(std::size_t bytes, int rounds, double block_us) {
    send_.assign(bytes / 4, 1);
    recv_.assign(bytes / 4, 0);
    std::vector<int> calls;
    for (std::size_t i = 0; i < comms_.size(); ++i) {
      // Too few calls in every block would measure the meetings between blocks.
      double us = block(i, 3);
      for (int again = 0; again < 5; ++again) us = std::min(us, block(i, 10));
      us = std::max(us, 0.05);
      calls.push_back(std::clamp(static_cast<int>(block_us / us), 2, 5000));
    }
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < comms_.size(); ++i) order.push_back(i);
    std::mt19937 random(static_cast<unsigned>(bytes));  // the same on all ranks
    for (int round = 0; round < rounds; ++round) {
      std::shuffle(order.begin(), order.end(), random);
      for (const std::size_t i : order) {
        const double us = block(i, calls[i]);
        if (rank_ == 0) std::printf("%zu,%d,%zu,%.4f\n", bytes, round, i, us);
      }
    }
    std::fflush(stdout);
  }

  void leave() {
    for (const ncclComm_t comm : comms_) ncclCommDestroy(comm);
    ncclCommDestroy(control_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  // From when all have come to when all are through, divided by the calls; the same on all ranks.
  double block(std::size_t index, int calls) {
    greatest(0);
    const auto begin = Clock::now();
    for (int i = 0; i < calls; ++i) require(call(comms_[index]), collective_.c_str());
    greatest(0);
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / calls;
    return greatest(static_cast<float>(us));
  }

  float greatest(float mine) {
    float all = 0;
    require(ncclAllReduce(&mine, &all, 1, ncclFloat32, ncclMax, control_, nullptr), "ncclAllReduce");
    return all;
  }

  ncclResult_t call(ncclComm_t comm) {
    const std::size_t count = send_.size();
    const std::size_t share = std::max<std::size_t>(1, count / static_cast<std::size_t>(ranks_));
    if (collective_ == "all_reduce")
      return ncclAllReduce(send_.data(), recv_.data(), count, ncclFloat32, ncclSum, comm, nullptr);
    if (collective_ == "all_gather")
      return ncclAllGather(send_.data(), recv_.data(), share, ncclFloat32, comm, nullptr);
    if (collective_ == "reduce_scatter")
      return ncclReduceScatter(send_.data(), recv_.data(), share, ncclFloat32, ncclSum, comm, nullptr);
    if (collective_ == "broadcast")
      return ncclBroadcast(send_.data(), send_.data(), count, ncclFloat32, 0, comm, nullptr);
    std::fprintf(stderr, "%s is no collective of this benchmark\n", collective_.c_str());
    std::exit(2);
  }

  int rank_;
  int ranks_;
  std::string collective_;
  std::vector<ncclComm_t> comms_;
  ncclComm_t control_ = nullptr;
  std::vector<float> send_, recv_;
};

}  // namespace

int main(int argc, char** argv) {
  const int first_settings = 6;
  if (argc <= first_settings || argc - first_settings > static_cast<int>(kMostSettings)) {
    std::fprintf(stderr,
                 "usage: bench_paired COLLECTIVE RANKS ROUNDS BLOCK_US SIZE,SIZE,... SETTINGS ... (at most %zu)\n",
                 kMostSettings);
    return 2;
  }
  const int ranks = std::atoi(argv[2]);
  void* const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (ranks < 2 || memory == MAP_FAILED) return 2;
  auto* const shared = new (memory) Shared;
  int rank = 0;
  std::vector<pid_t> children;
  for (int i = 1; i < ranks; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      rank = i;
      break;
    }
    children.push_back(child);
  }
  Rank mine(rank, ranks, argv[1]);
  mine.connect(*shared, {argv + first_settings, argv + argc});
  std::istringstream sizes(argv[5]);
  for (std::string size; std::getline(sizes, size, ',');)
    mine.measure(std::stoul(size), std::atoi(argv[3]), std::atof(argv[4]));
  mine.leave();
  if (rank != 0) return 0;
  int failed = 0;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    failed |= status;
  }
  return failed == 0 ? 0 : 1;
}
