// The meeting of many ranks alone: time from the id to the last table, and memory. Ranks are threads of processes that
// give themselves host ids, as if each process was a host. Usage:
//   meeting_bench [--ranks N] [--hosts N] [--rounds N] [--bytes N] [--ids N] [--repeat N]
// A rank gives `bytes` bytes in the first round and 64 in each further one, as an init does. Prints Markdown.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "runtime/bootstrap/bootstrap.h"

namespace {

using namespace sccl::runtime;
using Clock = std::chrono::steady_clock;

struct Options {
  int ranks = 1024;
  int hosts = 32;
  int rounds = 10;
  int bytes = 512;
  int ids = 1;
  int repeat = 5;
};

struct Report {
  double begin_s = 0;
  double met_s = 0;            // the first table is there
  double end_s = 0;            // the last one
  std::int64_t grown_kib = 0;  // at the end, against before the first rank
  std::int64_t most_kib = 0;
  int failures = 0;
};

double now_s() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

std::int64_t memory_kib(const char* field) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.rfind(field, 0) == 0) return std::atoll(line.c_str() + std::strlen(field) + 1);
  return 0;
}

Report run_host(const Options& options, std::span<const UniqueId> ids, int host) {
  const std::atomic<bool> no_abort{false};
  std::atomic<int> failures{0};
  std::atomic<int> met{0};
  Report report;
  const std::int64_t before = memory_kib("VmRSS:");
  report.begin_s = now_s();
  const int per_host = options.ranks / options.hosts;
  std::atomic<double> met_s{0};
  std::vector<std::thread> ranks;
  for (int i = 0; i < per_host; ++i)
    ranks.emplace_back([&, rank = host * per_host + i] {
      try {
        const auto deadline = sccl::Deadline::in(std::chrono::seconds(100));
        Bootstrap bootstrap(ids, rank, options.ranks, deadline, no_abort);
        for (int round = 0; round < options.rounds; ++round) {
          const Bytes mine(static_cast<std::size_t>(round == 0 ? options.bytes : 64), static_cast<std::byte>(rank));
          const auto all = bootstrap.all_gather(mine, deadline);
          for (int other = 0; other < options.ranks; ++other)
            if (all[static_cast<std::size_t>(other)].at(0) != static_cast<std::byte>(other)) ++failures;
          if (round == 0 && ++met == per_host) met_s = now_s();
        }
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
        ++failures;
      }
    });
  for (std::thread& rank : ranks) rank.join();
  report.met_s = met_s;
  report.end_s = now_s();
  report.grown_kib = memory_kib("VmRSS:") - before;
  report.most_kib = memory_kib("VmHWM:") - before;
  report.failures = failures;
  return report;
}

struct Outcome {
  double met_s = 0, all_s = 0;
  double kib_per_rank = 0, most_kib_per_host = 0;
  int failures = 0;
};

Outcome run_once(const Options& options) {
  // The roots live in a process of their own, as the launcher's.
  std::vector<UniqueId> ids;
  int ends[2];
  if (::pipe(ends) != 0) std::abort();
  for (int i = 0; i < options.ids; ++i) ids.push_back(create_private_id());
  std::vector<pid_t> hosts;
  const double begin = now_s();
  for (int host = 0; host < options.hosts; ++host) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv("NCCL_HOSTID", ("host" + std::to_string(host)).c_str(), 1);
      const Report report = run_host(options, ids, host);
      (void)!::write(ends[1], &report, sizeof report);
      ::_exit(0);
    }
    hosts.push_back(child);
  }
  ::close(ends[1]);
  Outcome outcome;
  Report report;
  int reports = 0;
  while (::read(ends[0], &report, sizeof report) == sizeof report) {
    ++reports;
    outcome.met_s = std::max(outcome.met_s, report.met_s - begin);
    outcome.all_s = std::max(outcome.all_s, report.end_s - begin);
    outcome.kib_per_rank += static_cast<double>(report.most_kib) / options.ranks;
    outcome.most_kib_per_host = std::max(outcome.most_kib_per_host, static_cast<double>(report.most_kib));
    outcome.failures += report.failures;
  }
  ::close(ends[0]);
  for (const pid_t host : hosts) ::waitpid(host, nullptr, 0);
  if (reports != options.hosts) ++outcome.failures;
  return outcome;
}

Options parse(int count, char** words) {
  Options options;
  const std::array<std::pair<const char*, int*>, 6> known{{{"--ranks", &options.ranks},
                                                           {"--hosts", &options.hosts},
                                                           {"--rounds", &options.rounds},
                                                           {"--bytes", &options.bytes},
                                                           {"--ids", &options.ids},
                                                           {"--repeat", &options.repeat}}};
  for (int i = 1; i + 1 < count; i += 2)
    for (const auto& [name, value] : known)
      if (std::strcmp(words[i], name) == 0) *value = std::atoi(words[i + 1]);
  return options;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int count, char** words) {
  const Options options = parse(count, words);
  if (options.ranks % options.hosts != 0 || options.ranks < 1 || options.rounds < 1) {
    std::fprintf(stderr, "the number of ranks is a multiple of the number of hosts\n");
    return 2;
  }
  std::vector<double> met, all, memory, host_memory;
  int failures = 0;
  for (int i = 0; i < options.repeat; ++i) {
    const Outcome outcome = run_once(options);
    met.push_back(outcome.met_s * 1e3);
    all.push_back(outcome.all_s * 1e3);
    memory.push_back(outcome.kib_per_rank);
    host_memory.push_back(outcome.most_kib_per_host / 1024);
    failures += outcome.failures;
  }
  rusage own{};
  ::getrusage(RUSAGE_SELF, &own);
  std::printf("| %d | %d | %d | %d | %.0f (%.0f-%.0f) | %.0f (%.0f-%.0f) | %.0f | %.1f | %.1f |%s\n", options.ranks,
              options.hosts, options.ids, options.rounds, median(met), *std::min_element(met.begin(), met.end()),
              *std::max_element(met.begin(), met.end()), median(all), *std::min_element(all.begin(), all.end()),
              *std::max_element(all.begin(), all.end()), median(memory), median(host_memory),
              static_cast<double>(own.ru_maxrss) / 1024, failures == 0 ? "" : " FAILED");
  return failures == 0 ? 0 : 1;
}
