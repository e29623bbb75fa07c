// sccl perf: starts the ranks, collects what they measured, prints the table.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "tools/perf_plan.h"
#include "tools/perf_rank.h"
#include "tools/perf_report.h"
#include "tools/verbs.h"

namespace sccl::tools {
namespace {

constexpr int kMostRanks = 1024;

struct CommandLine {
  PerfOptions options;
  std::string algorithm;
  std::string protocol;
  std::string csv_path;
  bool as_json = false;
};

// "64", "8K", "1.5M", "2G"
std::size_t parse_size(const std::string& text) {
  std::size_t used = 0;
  const double number = std::stod(text, &used);
  std::string suffix = text.substr(used);
  double unit = 1;
  if (!suffix.empty() && (suffix.back() == 'B' || suffix.back() == 'b')) suffix.pop_back();
  if (suffix == "K" || suffix == "k") unit = 1 << 10;
  else if (suffix == "M" || suffix == "m") unit = 1 << 20;
  else if (suffix == "G" || suffix == "g") unit = 1 << 30;
  else if (!suffix.empty()) throw CLI::ValidationError("'" + text + "' is no size: use 8, 64K, 32M, 2G");
  if (!(number >= 0) || number * unit > 1e15) throw CLI::ValidationError("'" + text + "' is no size");
  return static_cast<std::size_t>(number * unit);
}

template <typename T, typename Parse>
std::vector<T> parse_list(const std::string& text, int count, const char* what, Parse&& parse) {
  std::vector<T> all;
  for (int i = 0; i < count; ++i) all.push_back(static_cast<T>(i));
  if (text == "all") return all;
  const std::optional<T> one = parse(text);
  if (!one) throw CLI::ValidationError("'" + text + "' is no " + what);
  return {*one};
}

CommandLine parse_command_line(CLI::App& app, int argc, char** argv) {
  CommandLine line;
  std::string collective, least = "8", most = "32M", type = "float", op = "sum";
  int check = 1;
  app.add_option("COLLECTIVE", collective, "all_reduce all_gather reduce_scatter broadcast reduce alltoall gather scatter sendrecv")
      ->required();
  app.add_option("-n", line.options.ranks, "ranks")->check(CLI::Range(1, kMostRanks));
  app.add_option("-b", least, "smallest size");
  app.add_option("-e", most, "largest size");
  app.add_option("-f", line.options.factor, "factor between sizes")->check(CLI::Range(1.01, 1e6));
  app.add_option("-d", type, "type, or all");
  app.add_option("-o", op, "operation: sum prod max min avg mulsum, or all");
  app.add_option("-w", line.options.warmup, "calls before timing")->check(CLI::Range(0, 1000000));
  app.add_option("-i", line.options.iterations, "timed calls")->check(CLI::Range(1, 1000000));
  app.add_option("-c", check, "check every element")->check(CLI::Range(0, 1));
  app.add_option("--algo", line.algorithm, "SCCL_ALGO of the ranks");
  app.add_option("--proto", line.protocol, "SCCL_PROTO of the ranks");
  app.add_option("--csv", line.csv_path, "also write this file");
  app.add_flag("--threads", line.options.threads, "ranks as threads of one process");
  app.add_flag("--json", line.as_json, "print JSON");
  app.parse(argc, argv);
  for (const PerfCollective& known : perf_collectives())
    if (collective == known.name) line.options.collective = &known;
  if (line.options.collective == nullptr) throw CLI::ValidationError("'" + collective + "' is no collective");
  line.options.least_bytes = parse_size(least);
  line.options.most_bytes = parse_size(most);
  if (line.options.least_bytes == 0 || line.options.most_bytes < line.options.least_bytes)
    throw CLI::ValidationError("-b must be positive and not exceed -e");
  line.options.check = check != 0;
  line.options.types = parse_list<DataType>(type, kDataTypeCount, "type", data_type_from_name);
  if (line.options.collective->reduces) line.options.ops = parse_list<ReduceOp>(op, 6, "operation", reduce_op_from_name);
  return line;
}

bool write_all(int descriptor, const void* data, std::size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t count = ::write(descriptor, at, bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += count;
    bytes -= static_cast<std::size_t>(count);
  }
  return true;
}

bool read_all(int descriptor, void* data, std::size_t bytes) {
  char* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t count = ::read(descriptor, at, bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += count;
    bytes -= static_cast<std::size_t>(count);
  }
  return true;
}

// A rank in a process of its own: the id comes and the measurements go through pipes. Rank 0 makes the id.
class RankProcess {
 public:
  RankProcess(const PerfOptions& options, int rank) : rank_(rank) {
    int down[2];
    int up[2];
    if (::pipe(down) != 0 || ::pipe(up) != 0) throw std::runtime_error("no pipe can be opened: raise ulimit -n");
    process_ = ::fork();
    if (process_ < 0) throw std::runtime_error("a rank cannot be started");
    if (process_ == 0) {
      ::close(down[1]);
      ::close(up[0]);
      ::_exit(child(options, rank, down[0], up[1]));
    }
    ::close(down[0]);
    ::close(up[1]);
    down_ = down[1];
    up_ = up[0];
  }

  bool receive(void* data, std::size_t bytes) const { return read_all(up_, data, bytes); }
  bool send(const void* data, std::size_t bytes) const { return write_all(down_, data, bytes); }

  void end() const { ::kill(process_, SIGKILL); }

  int wait() {
    ::close(down_);
    ::close(up_);
    int status = 0;
    while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
  }
  int rank() const { return rank_; }

 private:
  static int child(const PerfOptions& options, int rank, int down, int up) {
    try {
      ncclUniqueId id;
      if (rank == 0) {
        if (ncclGetUniqueId(&id) != ncclSuccess) throw std::runtime_error(ncclGetLastError(nullptr));
        if (!write_all(up, &id, sizeof id)) return 1;
      }
      if (!read_all(down, &id, sizeof id)) return 1;
      measure_rank(options, rank, id, [&](const Measurement& one) {
        if (!write_all(up, &one, sizeof one)) throw std::runtime_error("the parent is gone");
      });
      return 0;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      return 1;
    }
  }

  int rank_;
  pid_t process_ = -1;
  int down_ = -1;
  int up_ = -1;
};

// False when a rank failed; its output tells why.
bool run_processes(const PerfOptions& options, PerfReport& report) {
  std::fflush(nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  std::vector<RankProcess> ranks;
  for (int rank = 0; rank < options.ranks; ++rank) ranks.emplace_back(options, rank);
  ncclUniqueId id;
  bool alive = ranks.front().receive(&id, sizeof id);
  for (const RankProcess& rank : ranks) alive = alive && rank.send(&id, sizeof id);
  const std::vector<Row> rows = perf_rows(options);
  std::vector<Measurement> measurements(ranks.size());
  for (std::size_t row = 0; row < rows.size() && alive; ++row) {
    report.progress(row, rows.size());
    for (std::size_t rank = 0; rank < ranks.size() && alive; ++rank)
      alive = ranks[rank].receive(&measurements[rank], sizeof(Measurement));
    if (alive) report.add(rows[row], measurements);
  }
  report.progress(rows.size(), rows.size());
  if (!alive)
    for (const RankProcess& rank : ranks) rank.end();
  bool well = alive;
  for (RankProcess& rank : ranks) well = rank.wait() == 0 && well;
  return well;
}

bool run_threads(const PerfOptions& options, PerfReport& report) {
  ncclUniqueId id;
  if (ncclGetUniqueId(&id) != ncclSuccess) throw std::runtime_error(ncclGetLastError(nullptr));
  const auto count = static_cast<std::size_t>(options.ranks);
  std::vector<std::vector<Measurement>> by_rank(count);
  std::vector<std::string> errors(count);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] {
      try {
        measure_rank(options, static_cast<int>(rank), id,
                     [&](const Measurement& one) { by_rank[rank].push_back(one); });
      } catch (const std::exception& error) {
        errors[rank] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  bool well = true;
  for (std::size_t rank = 0; rank < count; ++rank) {
    if (errors[rank].empty()) continue;
    std::fprintf(stderr, "rank %zu: %s\n", rank, errors[rank].c_str());
    well = false;
  }
  if (!well) return false;
  const std::vector<Row> rows = perf_rows(options);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    std::vector<Measurement> measurements;
    for (const auto& mine : by_rank) measurements.push_back(mine[row]);
    report.add(rows[row], measurements);
  }
  return true;
}

}  // namespace

int perf(int argc, char** argv) {
  CLI::App app("Measures a collective; columns and meaning as in nccl-tests.", "sccl perf");
  CommandLine line;
  try {
    line = parse_command_line(app, argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kBadUsage;
  } catch (const std::logic_error& error) {
    std::fprintf(stderr, "sccl perf: a size is not understood (%s): use 8, 64K, 32M, 2G\n", error.what());
    return kBadUsage;
  }
  if (!line.algorithm.empty()) ::setenv("SCCL_ALGO", line.algorithm.c_str(), 1);
  if (!line.protocol.empty()) ::setenv("SCCL_PROTO", line.protocol.c_str(), 1);
  PerfReport report(line.options, line.csv_path, line.as_json);
  const bool well = line.options.threads ? run_threads(line.options, report) : run_processes(line.options, report);
  const std::size_t wrong = report.finish();
  return well && wrong == 0 ? kOk : kNo;
}

}  // namespace sccl::tools
