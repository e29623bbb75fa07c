// libsccl against the MPI that started the program: the same processes, the same buffers, blocks of calls in turn.
// Built and run by bench/host/run.sh, once for each MPI; prints lines of comma-separated values for report.py.
//
// A block is as many calls as take some milliseconds, thousands of the shortest. Before and after it the ranks meet by
// means of the library that is timed: one that spins without giving cores away leaves its barrier late where ranks
// outnumber them, and keeps those from working who are not there yet. The slowest rank's time counts. Blocks of the two
// libraries alternate, and who is first alternates, too; a ratio is that of two neighbouring blocks, and the median of
// these is what is told.
#include <algorithm>
#include <chrono>
#include <functional>
#include <sstream>
#include <vector>

#include "memory_rate.h"
#include "own_slots.h"
#include "workload.h"

namespace bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kBlockUs = 5000;
constexpr double kSharedCoresBlockUs = 20000;  // several turns of the scheduler
constexpr double kMostCalls = 5000;
constexpr double kCaseUs = 4e6;  // as many pairs of blocks as fit, between the next two
constexpr int kLeastPairs = 3;
constexpr double kLongCallUs = 20000;                             // a second look is not worth its time
constexpr std::size_t kLeastMemoryBytes = std::size_t{64} << 20;  // beyond the caches
constexpr std::size_t kLeastSlotsBytes = std::size_t{1} << 20;
constexpr int kMemoryRepeats = 10;

struct Options {
  std::vector<Kind> kinds{Kind::all_reduce, Kind::all_gather, Kind::reduce_scatter, Kind::broadcast};
  std::vector<std::size_t> sizes;
  int most_pairs = 15;
  bool registered = false;  // buffers of ncclMemAlloc, for both libraries
  bool beside = true;       // loops over memory, too
};

double since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

class Comparison {
 public:
  Comparison(const World& world, const Options& options) : world_(world), options_(options) {
    if (world.ranks > world.cores) block_us_ = kSharedCoresBlockUs;
  }

  void run(Workload& workload, Kind kind) {
    const Library libraries[] = {{"MPI", [&] { workload.call_mpi(); }, [] { MPI_Barrier(MPI_COMM_WORLD); }},
                                 {"libsccl", [&] { workload.call_sccl(); }, [&] { world_.join(); }}};
    double call_us[2];
    int block[2];
    for (int turn = 0; turn < 2; ++turn) {
      workload.clear();
      libraries[turn].call();
      workload.check(libraries[turn].name);
      call_us[turn] = estimate_us(libraries[turn]);
      block[turn] = static_cast<int>(std::clamp(block_us_ / call_us[turn], 1.0, kMostCalls));
    }
    const double pair_us = block[0] * call_us[0] + block[1] * call_us[1];
    const int pairs = std::clamp(static_cast<int>(kCaseUs / pair_us), std::min(kLeastPairs, options_.most_pairs),
                                 options_.most_pairs);
    std::vector<double> us[2];
    std::vector<double> ratios;
    for (int pair = 0; pair < pairs; ++pair) {
      for (const int turn : {pair % 2, 1 - pair % 2}) us[turn].push_back(time_us(libraries[turn], block[turn]));
      ratios.push_back(us[0].back() / us[1].back());
    }
    if (!world_.first()) return;
    std::printf("case,%s%s,%d,%zu,%d,%d,%d,%.3f,%.3f,%.4f,%.4f,%.4f\n", kKindNames[static_cast<int>(kind)],
                options_.registered ? "_registered" : "", world_.ranks, workload.bytes(), block[0], block[1], pairs,
                quantile(us[0], 0.5), quantile(us[1], 0.5), quantile(ratios, 0.5), quantile(ratios, 0.25),
                quantile(ratios, 0.75));
    std::fflush(stdout);
  }

  // The least time of each loop: other programs only ever slow it down.
  void memory(const float* from, float* to, std::size_t bytes) {
    for (const MemoryLoop& loop : kMemoryLoops) {
      double least_us = 1e30;
      for (int repeat = 0; repeat < kMemoryRepeats; ++repeat) {
        MPI_Barrier(MPI_COMM_WORLD);
        const auto begin = Clock::now();
        loop.run(from, to, bytes / sizeof(float));
        least_us = std::min(least_us, world_.slowest(since(begin)));
      }
      const double traffic = loop.bytes_per_float * static_cast<double>(bytes) / sizeof(float) * world_.ranks;
      if (world_.first())
        std::printf("memory,%s,%s,%d,%zu,%.0f,%.1f\n", loop.name, kStores, world_.ranks, bytes, traffic, least_us);
    }
  }

  // What AllReduce costs beside a loop over the same bytes of the rank's own buffers, one after the other: what the
  // machine does meanwhile hits both.
  void beside_memory(Workload& workload, const float* from, float* to) {
    const Library turns[] = {
        {"memory", [&] { add_to_both_loop(from, to, workload.bytes() / sizeof(float)); }, [&] { world_.join(); }},
        {"libsccl", [&] { workload.call_sccl(); }, [&] { world_.join(); }}};
    std::vector<double> shares;
    in_turn(turns, 1, [&](const double(&us)[2]) { shares.push_back(us[0] / us[1]); });
    if (world_.first())
      std::printf("beside,%s,%d,%zu,%.4f\n", options_.registered ? "all_reduce_registered" : "all_reduce", world_.ranks,
                  workload.bytes(), quantile(shares, 0.5));
  }

  // Both libraries beside what own_slots.h moves.
  void beside_own_slots(Workload& workload, Kind kind, float* send, float* recv) {
    float* const result = kind == Kind::broadcast ? send : recv;
    const std::size_t count = workload.bytes() / sizeof(float);
    const auto join = [&] { world_.join(); };
    const Library turns[] = {{"MPI", [&] { workload.call_mpi(); }, join},
                             {"libsccl", [&] { workload.call_sccl(); }, join},
                             {"streamed", [&] { OwnSlots<true>::run(kind, world_.rank, send, result, count); }, join},
                             {"cached", [&] { OwnSlots<false>::run(kind, world_.rank, send, result, count); }, join}};
    const int calls = static_cast<int>(std::clamp(block_us_ / estimate_us(turns[1]), 1.0, kMostCalls));
    std::vector<double> ours;
    std::vector<double> theirs;
    in_turn(turns, calls, [&](const double(&us)[4]) {
      const double own_us = std::min(us[2], us[3]);
      ours.push_back(us[1] / own_us);
      theirs.push_back(us[0] / own_us);
    });
    if (world_.first())
      std::printf("own_slots,%s,%d,%zu,%.4f,%.4f\n", kKindNames[static_cast<int>(kind)], world_.ranks, workload.bytes(),
                  quantile(ours, 0.5), quantile(theirs, 0.5));
  }

 private:
  struct Library {
    const char* name;
    std::function<void()> call;
    std::function<void()> join;
  };

  template <std::size_t kTurns, typename Take>
  void in_turn(const Library (&turns)[kTurns], int calls, Take&& take) const {
    for (int round = 0; round < kMemoryRepeats; ++round) {
      double us[kTurns];
      for (std::size_t i = 0; i < kTurns; ++i) {
        const std::size_t which = round % 2 == 0 ? i : kTurns - 1 - i;
        us[which] = time_us(turns[which], calls);
      }
      take(us);
    }
  }

  // Of a call; other programs shall not make blocks shorter.
  double estimate_us(const Library& library) const {
    const auto least_us = [&](int calls) {
      double us = time_us(library, calls);
      for (int again = 0; again < 4 && us < kLongCallUs; ++again) us = std::min(us, time_us(library, calls));
      return us;
    };
    const double us = least_us(1);
    return us < 500 ? least_us(50) : us;
  }

  double time_us(const Library& library, int calls) const {
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 3; ++i) library.join();
    const auto begin = Clock::now();
    for (int i = 0; i < calls; ++i) library.call();
    const double mine_us = since(begin) / calls;
    // Whoever is done first waits as this library does, not on a core that the others need.
    library.join();
    return world_.slowest(mine_us);
  }

  const World& world_;
  const Options& options_;
  double block_us_ = kBlockUs;
};

[[noreturn]] void usage(const World& world, const char* wrong) {
  if (world.first())
    std::fprintf(stderr,
                 "%s: use --collectives NAME,... --sizes BYTES,... --memory malloc|nccl --beside yes|no --pairs N\n",
                 wrong);
  MPI_Finalize();
  std::exit(2);
}

std::vector<std::string> items(const char* list) {
  std::vector<std::string> found;
  std::stringstream text(list);
  for (std::string item; std::getline(text, item, ',');) found.push_back(item);
  return found;
}

Options parse(const World& world, int argc, char** argv) {
  Options options;
  for (std::size_t bytes = 4; bytes <= std::size_t{256} << 20; bytes *= 2) options.sizes.push_back(bytes);
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 >= argc) usage(world, argv[i]);
    if (name == "--pairs") {
      options.most_pairs = std::atoi(argv[i + 1]);
    } else if (name == "--memory") {
      options.registered = std::string(argv[i + 1]) == "nccl";
      if (!options.registered && std::string(argv[i + 1]) != "malloc") usage(world, "--memory is malloc or nccl");
    } else if (name == "--beside") {
      options.beside = std::string(argv[i + 1]) == "yes";
    } else if (name == "--sizes") {
      options.sizes.clear();
      for (const std::string& item : items(argv[i + 1]))
        options.sizes.push_back(std::strtoul(item.c_str(), nullptr, 10));
    } else if (name == "--collectives") {
      options.kinds.clear();
      for (const std::string& item : items(argv[i + 1])) {
        const auto found = std::find(std::begin(kKindNames), std::end(kKindNames), item);
        if (found == std::end(kKindNames)) usage(world, item.c_str());
        options.kinds.push_back(static_cast<Kind>(found - std::begin(kKindNames)));
      }
    } else {
      usage(world, argv[i]);
    }
  }
  const bool all_positive =
      std::all_of(options.sizes.begin(), options.sizes.end(), [](std::size_t bytes) { return bytes > 0; });
  if (options.most_pairs < 1 || options.sizes.empty() || !all_positive)
    usage(world, "--pairs and --sizes must be positive");
  return options;
}

void compare_all(const World& world, const Options& options) {
  const std::size_t largest =
      std::max<std::size_t>(4096, *std::max_element(options.sizes.begin(), options.sizes.end()));
  const Buffer send(largest, options.registered);
  const Buffer recv(largest, options.registered);
  Comparison comparison(world, options);
  for (const Kind kind : options.kinds) {
    std::size_t before = 0;
    for (const std::size_t bytes : options.sizes) {
      Workload workload(world, kind, bytes, send.data(), recv.data());
      if (workload.bytes() == before) continue;
      before = workload.bytes();
      comparison.run(workload, kind);
      if (!options.beside) continue;
      if (kind == Kind::all_reduce && world.ranks <= world.cores && bytes >= kLeastMemoryBytes) {
        comparison.memory(send.data(), recv.data(), bytes / 256 * 256);
        if (bytes % 256 == 0) comparison.beside_memory(workload, send.data(), recv.data());
      }
      const bool has_loop = kind == Kind::all_reduce || kind == Kind::all_gather || kind == Kind::broadcast;
      if (has_loop && world.ranks == 2 && world.cores >= 2 && !options.registered && bytes >= kLeastSlotsBytes &&
          bytes % 512 == 0)
        comparison.beside_own_slots(workload, kind, send.data(), recv.data());
    }
  }
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  bench::World world;
  MPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world.ranks);
  const bench::Options options = bench::parse(world, argc, argv);
  ncclUniqueId id;
  if (world.first()) bench::require(ncclGetUniqueId(&id), "ncclGetUniqueId");
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  bench::require(ncclCommInitRank(&world.comm, world.ranks, id, world.rank), "ncclCommInitRank");
  if (world.first()) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(version, &length);
    *std::find(version, version + length, '\n') = '\0';  // what follows is how it was built
    std::printf("mpi,%s\n", version);
  }
  bench::compare_all(world, options);
  bench::require(ncclCommDestroy(world.comm), "ncclCommDestroy");
  MPI_Finalize();
  return 0;
}
