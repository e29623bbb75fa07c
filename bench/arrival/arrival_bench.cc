// Ranks that come late, with several values of SCCL_ARRIVAL in the same processes: blocks of calls of one communicator
// and of the others take turns. Usage: arrival_bench COLLECTIVE RANKS[/HOSTS] PATTERN FORM[,FORM...] BYTES...
//
//   COLLECTIVE  allreduce, reduce, reducescatter      PATTERN  none, mif=N, one=N, half=N; row
//   HOSTS       the ranks are told that they are on so many hosts, in blocks (NCCL_HOSTID)
//   FORM        what is compared with "never"; "bound": see below
//
// N counts times of one message of the call's size (Send and Recv between two ranks), measured first. Late ranks sleep.
// "row": nobody is late, and calls follow one another without a meeting; the tail is then the time of one call.
//
// With the form "auto" elements are integers, whose sums it may order as it likes; else they are floats.
//
// Prints one line of JSON for each size and form: medians of tails (from the last arrival to the last exit) and of the
// mean time in the call, and quartiles of the ratios of neighbouring blocks.
//
// "bound" reduces nothing. The rank that comes last reads its input once and writes a result of that size into memory
// that all ranks share, slice after slice; every rank copies the result from there into its own buffer (as far as it
// gets one). No schedule through shared memory can do less after the last arrival.
//
// Built with -DARRIVAL_MPI and started by mpirun, "mpi" is a form, too: the function of MPI of that name, in the same
// processes. $ARRIVAL_SHARED then names an empty file that all of them map.
#include <nccl_shim/nccl.h>
#ifdef ARRIVAL_MPI
#include <fcntl.h>
#include <mpi.h>
#endif
#include <sched.h>
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
#include <cstring>
#include <new>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr int kMostRanks = 64;
constexpr std::size_t kMostForms = 8;
constexpr std::size_t kSliceBytes = 32768;
constexpr std::size_t kMostBytes = std::size_t{64} << 20;
constexpr std::size_t kLongBytes = std::size_t{8} << 20;
constexpr std::int64_t kPointNs = 5'000'000'000;  // of all forms of a size together
constexpr std::int64_t kLeadNs = 300000;          // from the meeting before a call to its first arrival

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
  std::array<ncclUniqueId, kMostForms> ids;
  std::atomic<long> came{0};  // to meetings; the last of a meeting sets `start_ns` and then `met`
  std::atomic<std::int64_t> start_ns{0};
  std::atomic<long> met{0};
  std::atomic<std::int64_t> message_ns{0};
  std::array<std::int64_t, kMostRanks> arrived{};
  std::array<std::int64_t, kMostRanks> left{};
  // Of "bound": ranks that have come in all calls; slices of the result that are there in all calls.
  std::atomic<long> bound_came{0};
  std::atomic<long> bound_slices{0};
  std::array<std::byte, kMostBytes> result{};
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
  int hosts = 1;
  Pattern pattern;
  std::vector<std::string> forms;
  std::vector<std::size_t> sizes;
  bool of_integers = false;
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
    if (job.hosts > 1) ::setenv("NCCL_HOSTID", ("host" + std::to_string(rank * job.hosts / job.ranks)).c_str(), 1);
    for (std::size_t i = 0; i < job.forms.size(); ++i) {
      if (job.forms[i] == "mpi" || job.forms[i] == "bound") continue;
      ::setenv("SCCL_ARRIVAL", job.forms[i].c_str(), 1);
      require(ncclCommInitRank(&comms_[i], job.ranks, shared.ids[i], rank), "init");
    }
  }
  ~Rank() {
    for (ncclComm_t comm : comms_)
      if (comm != nullptr) ncclCommDestroy(comm);
  }

  void run() {
    for (const std::size_t bytes : job_.sizes) measure(bytes);
  }

 private:
  std::size_t part() const { return send_.size() / static_cast<std::size_t>(job_.ranks); }

  void call(std::size_t which) {
    if (job_.forms[which] == "mpi") return call_mpi();
    if (job_.forms[which] == "bound") return call_bound();
    ncclComm_t comm = comms_[which];
    const ncclDataType_t type = job_.of_integers ? ncclInt32 : ncclFloat;
    if (job_.collective == "allreduce")
      require(ncclAllReduce(send_.data(), recv_.data(), send_.size(), type, ncclSum, comm, nullptr), "AllReduce");
    else if (job_.collective == "reduce")
      require(ncclReduce(send_.data(), recv_.data(), send_.size(), type, ncclSum, 0, comm, nullptr), "Reduce");
    else
      require(ncclReduceScatter(send_.data(), recv_.data(), part(), type, ncclSum, comm, nullptr), "ReduceScatter");
  }

  void call_mpi() {
#ifdef ARRIVAL_MPI
    const int all = static_cast<int>(send_.size());
    const MPI_Datatype type = job_.of_integers ? MPI_INT : MPI_FLOAT;
    if (job_.collective == "allreduce")
      MPI_Allreduce(send_.data(), recv_.data(), all, type, MPI_SUM, MPI_COMM_WORLD);
    else if (job_.collective == "reduce")
      MPI_Reduce(send_.data(), recv_.data(), all, type, MPI_SUM, 0, MPI_COMM_WORLD);
    else
      MPI_Reduce_scatter_block(send_.data(), recv_.data(), static_cast<int>(part()), type, MPI_SUM, MPI_COMM_WORLD);
#else
    throw std::runtime_error("built without MPI");
#endif
  }

  // The bytes of the result that this rank gets: [first, second).
  std::pair<std::size_t, std::size_t> own_bytes() const {
    const std::size_t bytes = send_.size() * sizeof(float);
    if (job_.collective == "allreduce") return {0, bytes};
    if (job_.collective == "reduce") return {0, rank_ == 0 ? bytes : 0};
    const std::size_t begin = static_cast<std::size_t>(rank_) * part() * sizeof(float);
    return {begin, begin + part() * sizeof(float)};
  }

  void call_bound() {
    const std::size_t bytes = send_.size() * sizeof(float);
    const long slices = static_cast<long>((bytes + kSliceBytes - 1) / kSliceBytes);
    const bool is_last = shared_.bound_came.fetch_add(1) % job_.ranks == job_.ranks - 1;
    const long before = bound_before_;
    bound_before_ += slices;
    const auto [begin, end] = own_bytes();
    for (long slice = 0; slice < slices; ++slice) {
      const std::size_t first = static_cast<std::size_t>(slice) * kSliceBytes;
      const std::size_t last = std::min(first + kSliceBytes, bytes);
      if (is_last) {
        std::memcpy(&shared_.result[first], reinterpret_cast<const std::byte*>(send_.data()) + first, last - first);
        shared_.bound_slices.store(before + slice + 1, std::memory_order_release);
      }
      const std::size_t from = std::max(first, begin);
      const std::size_t to = std::min(last, end);
      if (from >= to) continue;
      for (int polls = 0; shared_.bound_slices.load(std::memory_order_acquire) <= before + slice; ++polls)
        if (polls > 100) ::sched_yield();
      std::memcpy(reinterpret_cast<std::byte*>(recv_.data()) + from - begin, &shared_.result[from], to - from);
    }
  }

  // Of one message of that size, in the mean.
  double message_ns(std::size_t bytes) {
    const int messages = bytes < kLongBytes ? 200 : 10;
    std::vector<char> data(bytes);
    meet(shared_, job_.ranks);
    const std::int64_t begin = now_ns();
    for (int i = 0; rank_ < 2 && i < messages; ++i)
      if ((i + rank_) % 2 == 0)
        require(ncclSend(data.data(), bytes, ncclChar, 1 - rank_, comms_[0], nullptr), "Send");
      else
        require(ncclRecv(data.data(), bytes, ncclChar, 1 - rank_, comms_[0], nullptr), "Recv");
    if (rank_ == 0) shared_.message_ns = (now_ns() - begin) / messages;
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
    return sample();
  }

  Sample sample() const {
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

  // Calls in a row: the time of one of them.
  Sample calls_in_a_row(std::size_t which, unsigned calls) {
    sleep_until(meet(shared_, job_.ranks));
    const auto own = static_cast<std::size_t>(rank_);
    shared_.arrived[own] = now_ns();
    for (unsigned i = 0; i < calls; ++i) call(which);
    shared_.left[own] = now_ns();
    meet(shared_, job_.ranks);
    const Sample all = sample();
    return {all.tail_us / calls, all.in_call_us / calls};
  }

  // Medians of blocks, and ratios of a block to the first form's beside it.
  struct Measured {
    std::vector<double> tails_us, in_calls_us, tail_ratios;
  };

  // As many as take some milliseconds.
  static unsigned calls_in_row(double message_ns) {
    constexpr double kRowNs = 3e6;
    return static_cast<unsigned>(std::clamp(kRowNs / message_ns, 2.0, 500.0));
  }

  void measure(std::size_t bytes) {
    send_.assign(bytes / sizeof(float), 1.0f);
    recv_.assign(bytes / sizeof(float), 0.0f);
    const double message = message_ns(bytes);
    const unsigned calls_of_block = bytes < kLongBytes ? 10 : 3;
    const std::size_t least_blocks = bytes < kLongBytes ? 8 : 3;
    const std::size_t forms = job_.forms.size();
    for (unsigned warm = 0; warm < calls_of_block * forms; ++warm) one_call(warm % forms, warm, message);
    const std::int64_t end = now_ns() + kPointNs;
    std::vector<Measured> measured(forms);
    unsigned number = 0;
    // All ranks stop at the same block: rank 0's clock decides, by what it stores before a meeting.
    for (bool goes_on = true; goes_on; number += calls_of_block) {
      for (std::size_t which = 0; which < forms; ++which) {
        std::vector<double> tails_us, in_calls_us;
        const auto keep = [&](const Sample& sample) {
          tails_us.push_back(sample.tail_us);
          in_calls_us.push_back(sample.in_call_us);
        };
        if (job_.pattern.kind == "row")
          keep(calls_in_a_row(which, calls_in_row(message)));
        else
          for (unsigned i = 0; i < calls_of_block; ++i) keep(one_call(which, number + i, message));
        Measured& of = measured[which];
        of.tails_us.push_back(median(tails_us));
        of.in_calls_us.push_back(median(in_calls_us));
        of.tail_ratios.push_back(of.tails_us.back() / measured[0].tails_us.back());
      }
      if (rank_ == 0) shared_.message_ns = now_ns() < end || measured[0].tails_us.size() < least_blocks ? 1 : 0;
      meet(shared_, job_.ranks);
      goes_on = shared_.message_ns.load() == 1;
      meet(shared_, job_.ranks);
    }
    if (rank_ != 0) return;
    for (std::size_t which = 0; which < forms; ++which) print(bytes, message, job_.forms[which], measured[which]);
  }

  void print(std::size_t bytes, double message, const std::string& form, Measured& measured) const {
    std::vector<double>& ratios = measured.tail_ratios;
    std::sort(ratios.begin(), ratios.end());
    std::printf(
        "{\"collective\": \"%s\", \"ranks\": %d, \"hosts\": %d, \"pattern\": \"%s=%g\", \"form\": \"%s\", \"bytes\": "
        "%zu, "
        "\"message_us\": %.2f, \"tail_us\": %.1f, \"tail_ratio\": %.3f, \"quartiles\": [%.3f, %.3f], "
        "\"in_call_us\": %.1f, \"blocks\": %zu}\n",
        job_.collective.c_str(), job_.ranks, job_.hosts, job_.pattern.kind.c_str(), job_.pattern.messages, form.c_str(),
        bytes, message * 1e-3, median(measured.tails_us), median(ratios), ratios[ratios.size() / 4],
        ratios[ratios.size() * 3 / 4], median(measured.in_calls_us), ratios.size());
    std::fflush(stdout);
  }

  const Job& job_;
  Shared& shared_;
  int rank_;
  std::array<ncclComm_t, kMostForms> comms_{};
  std::vector<float> send_, recv_;
  long bound_before_ = 0;  // slices of "bound" in earlier calls
};

Job job_of(int argc, char** argv) {
  if (argc < 6)
    throw std::runtime_error("usage: arrival_bench COLLECTIVE RANKS[/HOSTS] PATTERN FORM[,FORM...] BYTES...");
  Job job;
  job.collective = argv[1];
  if (std::sscanf(argv[2], "%d/%d", &job.ranks, &job.hosts) < 1) throw std::runtime_error("how many ranks?");
  const std::string pattern = argv[3];
  const std::size_t equals = pattern.find('=');
  job.pattern.kind = pattern.substr(0, equals);
  if (equals != std::string::npos) job.pattern.messages = std::atof(pattern.c_str() + equals + 1);
  job.forms.push_back("never");
  std::istringstream forms(argv[4]);
  for (std::string form; std::getline(forms, form, ',');) job.forms.push_back(form);
  job.of_integers = std::find(job.forms.begin(), job.forms.end(), "auto") != job.forms.end();
  if (job.forms.size() > kMostForms) throw std::runtime_error("too many forms");
  for (int i = 5; i < argc; ++i) job.sizes.push_back(static_cast<std::size_t>(std::atoll(argv[i])));
  for (const std::size_t bytes : job.sizes)
    if (bytes > kMostBytes) throw std::runtime_error("64 MiB at most");
  if (job.ranks < 2 || job.ranks > kMostRanks) throw std::runtime_error("2 to 64 ranks");
  if (job.hosts < 1 || job.hosts > job.ranks) throw std::runtime_error("every host needs a rank");
  return job;
}

Shared* shared_of(void* memory) {
  if (memory == MAP_FAILED) throw std::runtime_error("no shared memory");
  return static_cast<Shared*>(memory);
}

void make_ids(const Job& job, Shared& shared) {
  for (std::size_t i = 0; i < job.forms.size(); ++i) require(ncclGetUniqueId(&shared.ids[i]), "ncclGetUniqueId");
}

#ifdef ARRIVAL_MPI
int run(Job job) {
  MPI_Init(nullptr, nullptr);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
  const char* const path = std::getenv("ARRIVAL_SHARED");
  const int file = path == nullptr ? -1 : ::open(path, O_RDWR);
  if (file < 0 || ::ftruncate(file, sizeof(Shared)) != 0) throw std::runtime_error("ARRIVAL_SHARED names no file");
  Shared* const shared = shared_of(::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  if (rank == 0) make_ids(job, *new (shared) Shared);
  MPI_Barrier(MPI_COMM_WORLD);
  Rank(job, *shared, rank).run();
  MPI_Finalize();
  return 0;
}
#else
int run(const Job& job) {
  Shared* const shared =
      shared_of(::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  make_ids(job, *new (shared) Shared);
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
#endif

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(job_of(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
