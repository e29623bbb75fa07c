// Ranks that come late, with and without SCCL_ARRIVAL, in the same processes: blocks of calls of one communicator and
// of the other take turns. Usage: arrival_bench COLLECTIVE RANKS PATTERN FORM BYTES...
//
//   COLLECTIVE  allreduce, reduce, reducescatter      PATTERN  none, mif=N, one=N, half=N
//   FORM        what is compared with "never"
//
// N counts times of one message of the call's size (Send and Recv between two ranks), measured first. Late ranks sleep.
// Prints one line of JSON for each size: medians of tails (from the last arrival to the last exit) and of the mean time
// in the call, and quartiles of the ratios of neighbouring blocks.
#include <nccl_shim/nccl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr int kMostRanks = 64;
constexpr int kCallsOfBlock = 10;
constexpr std::int64_t kLeadNs = 300000;  // from the meeting before a call to its first arrival

std::int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000ll + now.tv_nsec;
}

void sleep_until(std::int64_t ns) {
  const timespec at{static_cast<time_t>(ns / 1000000000), static_cast<long>(ns % 1000000000)};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) == EINTR) continue;
}

struct Shared {
  std::array<ncclUniqueId, 2> ids;
  std::atomic<long> came{0};  // to meetings; the last of a meeting sets `start_ns` and then `met`
  std::atomic<std::int64_t> start_ns{0};
  std::atomic<long> met{0};
  std::atomic<std::int64_t> message_ns{0};
  std::array<std::int64_t, kMostRanks> arrived{};
  std::array<std::int64_t, kMostRanks> left{};
};

void require(ncclResult_t result, const char* what) {
  if (result != ncclSuccess) throw std::runtime_error(std::string(what) + ": " + ncclGetLastError(nullptr));
}

// All ranks return at the same time, as far as the system lets them.
std::int64_t meet(Shared& shared, int ranks) {
  const long number = shared.met.load();
  if (shared.came.fetch_add(1) % ranks == ranks - 1) {
    shared.start_ns = now_ns() + kLeadNs;
    shared.met = number + 1;
  }
  while (shared.met.load() == number) ::usleep(20);
  return shared.start_ns.load();
}

struct Pattern {
  std::string kind;
  double messages = 0;

  // Of the rank in the call; the same draw at all ranks.
  double delay_ns(int rank, int ranks, unsigned call, double message_ns) const {
    const double most = messages * message_ns;
    if (kind == "one") return rank == ranks - 1 ? most : 0;
    if (kind == "half") return rank >= ranks / 2 ? most : 0;
    if (kind != "mif") return 0;
    std::mt19937 random(call * 131 + static_cast<unsigned>(rank));
    return most * std::uniform_real_distribution<double>(0, 1)(random);
  }
};

struct Job {
  std::string collective;
  int ranks = 0;
  Pattern pattern;
  std::string form;
  std::vector<std::size_t> sizes;
};

struct Sample {
  double tail_us = 0;
  double in_call_us = 0;
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

class Rank {
 public:
  Rank(const Job& job, Shared& shared, int rank) : job_(job), shared_(shared), rank_(rank) {
    const char* const forms[] = {"never", job.form.c_str()};
    for (std::size_t i = 0; i < comms_.size(); ++i) {
      ::setenv("SCCL_ARRIVAL", forms[i], 1);
      require(ncclCommInitRank(&comms_[i], job.ranks, shared.ids[i], rank), "init");
    }
  }
  ~Rank() {
    for (ncclComm_t comm : comms_) ncclCommDestroy(comm);
  }

  void run() {
    for (const std::size_t bytes : job_.sizes) measure(bytes);
  }

 private:
  void call(std::size_t which) {
    ncclComm_t comm = comms_[which];
    const std::size_t all = send_.size();
    if (job_.collective == "allreduce")
      require(ncclAllReduce(send_.data(), recv_.data(), all, ncclFloat, ncclSum, comm, nullptr), "AllReduce");
    else if (job_.collective == "reduce")
      require(ncclReduce(send_.data(), recv_.data(), all, ncclFloat, ncclSum, 0, comm, nullptr), "Reduce");
    else
      require(ncclReduceScatter(send_.data(), recv_.data(), all / static_cast<std::size_t>(job_.ranks), ncclFloat,
                                ncclSum, comm, nullptr),
              "ReduceScatter");
  }

  // Of one message of that size, in the mean.
  double message_ns(std::size_t bytes) {
    constexpr int kMessages = 200;
    std::vector<char> data(bytes);
    meet(shared_, job_.ranks);
    const std::int64_t begin = now_ns();
    for (int i = 0; rank_ < 2 && i < kMessages; ++i)
      if ((i + rank_) % 2 == 0)
        require(ncclSend(data.data(), bytes, ncclChar, 1 - rank_, comms_[0], nullptr), "Send");
      else
        require(ncclRecv(data.data(), bytes, ncclChar, 1 - rank_, comms_[0], nullptr), "Recv");
    if (rank_ == 0) shared_.message_ns = (now_ns() - begin) / kMessages;
    meet(shared_, job_.ranks);
    return static_cast<double>(shared_.message_ns.load());
  }

  // Rank 0 gets the sample.
  Sample one_call(std::size_t which, unsigned number, double message_ns) {
    const std::int64_t start = meet(shared_, job_.ranks);
    const double delay = job_.pattern.delay_ns(rank_, job_.ranks, number, message_ns);
    sleep_until(start + static_cast<std::int64_t>(delay));
    const auto own = static_cast<std::size_t>(rank_);
    shared_.arrived[own] = now_ns();
    call(which);
    shared_.left[own] = now_ns();
    meet(shared_, job_.ranks);
    Sample sample;
    const auto end = static_cast<std::size_t>(job_.ranks);
    const auto last = [&](const auto& times) {
      return *std::max_element(times.begin(), times.begin() + static_cast<long>(end));
    };
    sample.tail_us = static_cast<double>(last(shared_.left) - last(shared_.arrived)) * 1e-3;
    for (std::size_t rank = 0; rank < end; ++rank)
      sample.in_call_us += static_cast<double>(shared_.left[rank] - shared_.arrived[rank]) * 1e-3 / job_.ranks;
    return sample;
  }

  void measure(std::size_t bytes) {
    send_.assign(bytes / sizeof(float), 1.0f);
    recv_.assign(bytes / sizeof(float), 0.0f);
    const double message = message_ns(bytes);
    for (unsigned warm = 0; warm < 2 * kCallsOfBlock; ++warm) one_call(warm % 2, warm, message);
    const std::int64_t end = now_ns() + 6'000'000'000;
    std::array<std::vector<double>, 2> tails, in_calls;
    std::vector<double> tail_ratios;
    std::vector<double> in_call_ratios;
    unsigned number = 0;
    // All ranks stop at the same block: rank 0's clock decides, by what it stores before a meeting.
    for (bool goes_on = true; goes_on;) {
      std::array<double, 2> tail{}, in_call{};
      const unsigned first = number;
      for (std::size_t which = 0; which < 2; ++which) {
        std::vector<double> block_tails, block_in_calls;
        for (int i = 0; i < kCallsOfBlock; ++i) {
          const Sample sample = one_call(which, first + static_cast<unsigned>(i), message);
          block_tails.push_back(sample.tail_us);
          block_in_calls.push_back(sample.in_call_us);
        }
        tail[which] = median(block_tails);
        in_call[which] = median(block_in_calls);
        tails[which].push_back(tail[which]);
        in_calls[which].push_back(in_call[which]);
      }
      number = first + kCallsOfBlock;
      tail_ratios.push_back(tail[1] / tail[0]);
      in_call_ratios.push_back(in_call[1] / in_call[0]);
      if (rank_ == 0) shared_.message_ns = now_ns() < end || tail_ratios.size() < 8 ? 1 : 0;
      meet(shared_, job_.ranks);
      goes_on = shared_.message_ns.load() == 1;
      meet(shared_, job_.ranks);
    }
    if (rank_ == 0) print(bytes, message, tails, in_calls, tail_ratios, in_call_ratios);
  }

  void print(std::size_t bytes, double message, const std::array<std::vector<double>, 2>& tails,
             const std::array<std::vector<double>, 2>& in_calls, std::vector<double> ratios,
             const std::vector<double>& in_call_ratios) const {
    std::sort(ratios.begin(), ratios.end());
    std::printf(
        "{\"collective\": \"%s\", \"ranks\": %d, \"pattern\": \"%s=%g\", \"form\": \"%s\", \"bytes\": %zu, "
        "\"message_us\": %.2f, \"never_tail_us\": %.1f, \"tail_us\": %.1f, \"tail_ratio\": %.3f, "
        "\"quartiles\": [%.3f, %.3f], \"never_in_call_us\": %.1f, \"in_call_us\": %.1f, \"in_call_ratio\": "
        "%.3f, \"blocks\": %zu}\n",
        job_.collective.c_str(), job_.ranks, job_.pattern.kind.c_str(), job_.pattern.messages, job_.form.c_str(), bytes,
        message * 1e-3, median(tails[0]), median(tails[1]), median(ratios), ratios[ratios.size() / 4],
        ratios[ratios.size() * 3 / 4], median(in_calls[0]), median(in_calls[1]), median(in_call_ratios), ratios.size());
    std::fflush(stdout);
  }

  const Job& job_;
  Shared& shared_;
  int rank_;
  std::array<ncclComm_t, 2> comms_{};
  std::vector<float> send_, recv_;
};

Job job_of(int argc, char** argv) {
  if (argc < 6) throw std::runtime_error("usage: arrival_bench COLLECTIVE RANKS PATTERN FORM BYTES...");
  Job job;
  job.collective = argv[1];
  job.ranks = std::atoi(argv[2]);
  const std::string pattern = argv[3];
  const std::size_t equals = pattern.find('=');
  job.pattern.kind = pattern.substr(0, equals);
  if (equals != std::string::npos) job.pattern.messages = std::atof(pattern.c_str() + equals + 1);
  job.form = argv[4];
  for (int i = 5; i < argc; ++i) job.sizes.push_back(static_cast<std::size_t>(std::atoll(argv[i])));
  if (job.ranks < 2 || job.ranks > kMostRanks) throw std::runtime_error("2 to 64 ranks");
  return job;
}

int run(const Job& job) {
  void* const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* const shared = new (memory) Shared;
  for (ncclUniqueId& id : shared->ids) require(ncclGetUniqueId(&id), "ncclGetUniqueId");
  std::vector<pid_t> children;
  for (int rank = 0; rank < job.ranks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        Rank(job, *shared, rank).run();
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
        std::_Exit(1);
      }
      std::_Exit(0);
    }
    children.push_back(child);
  }
  int failed = 0;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    failed |= status;
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(job_of(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
