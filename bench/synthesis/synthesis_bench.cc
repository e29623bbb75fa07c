// Synthesis beside the SCCL paper's own figures: rows of its tables, their UNSAT neighbours, points that dominate them,
// parts of machines and larger machines; as Markdown.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "synth/pareto.h"
#include "topology/presets.h"
#include "topology/symmetry/canonical.h"

namespace {

using namespace sccl;
using namespace sccl::synth;
using enum Collective;
using Clock = std::chrono::steady_clock;

struct Row {
  const char* machine;
  Collective collective;
  Size size;
  double paper_s;  // Table 4 or 5
};

// The labels of the printed tables come one collective too late in places; these are the rows as they must be.
const std::vector<Row> kTables{
    {"dgx1v", allgather, {1, 2, 2}, 0.3},    {"dgx1v", allgather, {2, 3, 3}, 0.8},
    {"dgx1v", allgather, {3, 4, 4}, 1.5},    {"dgx1v", allgather, {4, 5, 5}, 2.3},
    {"dgx1v", allgather, {5, 6, 6}, 3.3},    {"dgx1v", allgather, {6, 7, 7}, 4.6},
    {"dgx1v", allgather, {6, 3, 7}, 6.6},    {"dgx1v", allgather, {2, 2, 3}, 0.9},
    {"dgx1v", allreduce, {8, 4, 4}, 0.3},    {"dgx1v", allreduce, {16, 6, 6}, 0.6},
    {"dgx1v", allreduce, {24, 8, 8}, 1.3},   {"dgx1v", allreduce, {32, 10, 10}, 2.9},
    {"dgx1v", allreduce, {40, 12, 12}, 5.6}, {"dgx1v", allreduce, {48, 14, 14}, 12.8},
    {"dgx1v", allreduce, {48, 6, 14}, 23.0}, {"dgx1v", allreduce, {16, 4, 6}, 0.8},
    {"dgx1v", broadcast, {2, 2, 2}, 0.1},    {"dgx1v", broadcast, {6, 3, 3}, 0.3},
    {"dgx1v", broadcast, {12, 4, 4}, 1.0},   {"dgx1v", broadcast, {18, 5, 5}, 8.5},
    {"dgx1v", broadcast, {6, 3, 5}, 0.9},    {"dgx1v", gather, {1, 2, 2}, 0.3},
    {"dgx1v", gather, {2, 3, 3}, 0.9},       {"dgx1v", gather, {3, 4, 4}, 1.6},
    {"dgx1v", gather, {4, 5, 5}, 2.7},       {"dgx1v", gather, {5, 6, 6}, 3.8},
    {"dgx1v", gather, {6, 7, 7}, 6.0},       {"dgx1v", gather, {6, 3, 7}, 11.4},
    {"dgx1v", gather, {2, 2, 3}, 1.0},       {"dgx1v", alltoall, {8, 3, 3}, 2.6},
    {"dgx1v", alltoall, {8, 2, 3}, 3.0},     {"dgx1v", alltoall, {24, 8, 8}, 133.7},
    {"dgx1v", alltoall, {24, 2, 8}, 24.3},   {"z52", allgather, {1, 4, 4}, 0.5},
    {"z52", allgather, {2, 7, 7}, 1.3},      {"z52", allgather, {2, 4, 7}, 1.7},
    {"z52", allreduce, {8, 8, 8}, 0.4},      {"z52", allreduce, {16, 14, 14}, 0.9},
    {"z52", allreduce, {16, 8, 14}, 1.6},    {"z52", broadcast, {2, 4, 4}, 0.1},
    {"z52", broadcast, {4, 5, 5}, 0.2},      {"z52", broadcast, {6, 6, 6}, 0.3},
    {"z52", broadcast, {8, 7, 7}, 0.5},      {"z52", broadcast, {10, 8, 8}, 0.6},
    {"z52", gather, {1, 4, 4}, 0.4},         {"z52", gather, {2, 4, 7}, 1.8},
    {"z52", alltoall, {8, 4, 8}, 8.2},
};

const std::vector<Row> kBeyond{
    {"dgx1v", allgather, {3, 3, 4}, 0},  {"dgx1v", broadcast, {7, 3, 3}, 0}, {"dgx1v", broadcast, {13, 4, 4}, 0},
    {"dgx1v", broadcast, {25, 6, 6}, 0}, {"dgx1v", gather, {6, 2, 7}, 0},
};

const std::vector<Row> kRefuted{
    {"dgx1v", allgather, {3, 2, 4}, 0}, {"dgx1v", allgather, {4, 2, 5}, 0}, {"dgx1v", allgather, {5, 2, 6}, 0},
    {"dgx1v", allgather, {6, 2, 7}, 0}, {"dgx1v", allgather, {7, 7, 8}, 0}, {"dgx1v", broadcast, {3, 2, 2}, 0},
    {"dgx1v", broadcast, {4, 2, 3}, 0}, {"dgx1v", broadcast, {5, 2, 4}, 0}, {"dgx1v", alltoall, {8, 2, 2}, 0},
    {"dgx1v", alltoall, {16, 2, 5}, 0}, {"z52", allgather, {1, 3, 3}, 0},   {"z52", allgather, {3, 4, 10}, 0},
    {"z52", broadcast, {9, 7, 7}, 0},   {"z52", broadcast, {11, 8, 8}, 0},  {"z52", alltoall, {8, 4, 7}, 0},
};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Limits limits(double seconds) {
  return {Deadline::in(std::chrono::milliseconds(static_cast<int>(1000 * seconds))), nullptr};
}

int total_rounds(const schedule::Schedule& schedule) {
  return std::accumulate(schedule.rounds.begin(), schedule.rounds.end(), 0);
}

struct Measured {
  Answer answer;
  double median_s = 0;
  double worst_s = 0;
};

Measured measure(const Row& row, int repeats) {
  const topology::Topology topology = topology::preset(row.machine);
  Measured result;
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    const auto start = Clock::now();
    result.answer = synthesize(topology, row.collective, 0, row.size, limits(60));
    seconds.push_back(seconds_since(start));
  }
  std::sort(seconds.begin(), seconds.end());
  result.median_s = seconds[seconds.size() / 2];
  result.worst_s = seconds.back();
  return result;
}

std::string text(const Size& size) { return fmt::format("{},{},{}", size.chunks, size.steps, size.rounds); }

std::string outcome_text(const Answer& answer) {
  if (answer.outcome == Outcome::unsat) return "UNSAT: " + answer.reason;
  if (answer.outcome == Outcome::unknown) return "unknown: " + answer.reason;
  return text({answer.schedule->chunks_per_rank, answer.schedule->steps, total_rounds(*answer.schedule)});
}

void tables(int repeats) {
  fmt::print(
      "\n## Rows of the paper's Tables 4 and 5\n\nA schedule of C chunks with at most S steps and R rounds, "
      "verified; encoding and solving. Median and worst of {} runs.\n\n"
      "| machine | collective | C,S,R | found | seconds | worst | the paper, seconds "
      "|\n|---|---|---|---|---|---|---|\n",
      repeats);
  double ours = 0;
  double theirs = 0;
  double worst = 0;
  for (const Row& row : kTables) {
    const Measured measured = measure(row, repeats);
    fmt::print("| {} | {} | {} | {} | {:.3f} | {:.3f} | {} |\n", row.machine, info(row.collective).name, text(row.size),
               outcome_text(measured.answer), measured.median_s, measured.worst_s, row.paper_s);
    ours += measured.median_s;
    theirs += row.paper_s;
    worst = std::max(worst, measured.worst_s);
  }
  fmt::print("\nAll {} rows: {:.2f} s (the paper, on its own machine: {:.0f} s). The slowest run of all: {:.3f} s.\n",
             kTables.size(), ours, theirs, worst);
}

void rows(const char* title, const std::vector<Row>& rows, int repeats) {
  fmt::print("\n## {}\n\n| machine | collective | C,S,R | answer | seconds | worst |\n|---|---|---|---|---|---|\n",
             title);
  for (const Row& row : rows) {
    const Measured measured = measure(row, repeats);
    fmt::print("| {} | {} | {} | {} | {:.4f} | {:.4f} |\n", row.machine, info(row.collective).name, text(row.size),
               outcome_text(measured.answer), measured.median_s, measured.worst_s);
  }
}

std::string points_text(const Frontier& frontier) {
  std::string result;
  for (const Point& point : frontier.points)
    if (point.standing != Standing::dominated)
      result += fmt::format("{}{}{}", result.empty() ? "" : " ", text(point.size),
                            point.standing == Standing::open ? "?" : "");
  return result;
}

struct Timed {
  Frontier frontier;
  double latency_end_s = -1;  // when the first point with the fewest steps was there
  double seconds = 0;
};

Timed timed_frontier(const topology::Topology& topology, Collective collective, double budget_s) {
  const auto start = Clock::now();
  Timed result;
  Synthesizer synthesizer(topology, collective, 0);
  ParetoOptions options;
  options.found = [&](const Point& point) {
    if (point.latency_optimal && result.latency_end_s < 0) result.latency_end_s = seconds_since(start);
  };
  result.frontier = pareto(synthesizer, options, limits(budget_s));
  result.seconds = seconds_since(start);
  return result;
}

bool bandwidth_proved(const Frontier& frontier) {
  return std::any_of(frontier.points.begin(), frontier.points.end(),
                     [](const Point& point) { return point.bandwidth_optimal; });
}

void frontiers(const std::vector<std::pair<const char*, std::vector<Collective>>>& machines, const char* title,
               double budget_s) {
  fmt::print(
      "\n## {}\n\nBudget {} s each. Points C,S,R of the plane of steps and rounds per chunk; \"?\": something "
      "better is not excluded.\n\n| machine | collective | points | latency end, s | all, s | proved |\n"
      "|---|---|---|---|---|---|\n",
      title, budget_s);
  for (const auto& [machine, collectives] : machines)
    for (const Collective collective : collectives) {
      const Timed timed = timed_frontier(topology::preset(machine), collective, budget_s);
      fmt::print("| {} | {} | {} | {:.3f} | {:.2f} | {} |\n", machine, info(collective).name,
                 points_text(timed.frontier), timed.latency_end_s, timed.seconds, timed.frontier.statement());
      std::fflush(stdout);
    }
}

void parts(double budget_s) {
  const topology::Topology machine = topology::preset("dgx1v");
  const auto classes = topology::subset_classes(machine, 3, 7);
  fmt::print(
      "\n## Partial allocations: the {} classes of 3 to 7 devices of a DGX-1V\n\nBudget {} s each. \"Both ends "
      "proved\": the fewest steps by distance, the fewest rounds per chunk by a cut. Elsewhere the bandwidth end "
      "is open, and every frontier says by how much.\n\n| collective | classes | latency end, worst s | both ends "
      "proved | "
      "whole frontier proved | all, median s | all, worst s |\n|---|---|---|---|---|---|---|\n",
      classes.size(), budget_s);
  for (const Collective collective : {allgather, allreduce, broadcast}) {
    double latency_worst = 0;
    int both = 0;
    int whole = 0;
    std::vector<double> seconds;
    for (const topology::SubsetClass& one : classes) {
      const Timed timed = timed_frontier(topology::subset(machine, one.devices), collective, budget_s);
      latency_worst = std::max(latency_worst, timed.latency_end_s < 0 ? budget_s : timed.latency_end_s);
      both += timed.latency_end_s >= 0 && bandwidth_proved(timed.frontier) ? 1 : 0;
      whole += timed.frontier.open.empty() ? 1 : 0;
      seconds.push_back(timed.seconds);
    }
    std::sort(seconds.begin(), seconds.end());
    fmt::print("| {} | {} | {:.3f} | {} | {} | {:.3f} | {:.2f} |\n", info(collective).name, classes.size(),
               latency_worst, both, whole, seconds[seconds.size() / 2], seconds.back());
    std::fflush(stdout);
  }
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

std::string load() {
  std::ifstream file("/proc/loadavg");
  std::string first;
  file >> first;
  return first;
}

}  // namespace

int main(int argc, char** argv) {
  const int repeats = argc > 1 ? std::max(1, std::atoi(argv[1])) : 3;
  fmt::print(
      "# Synthesis\n\nCommand: `bench/synthesis/run.sh`, one thread of {} cores ({}); load average at the start "
      "{}.\n",
      std::thread::hardware_concurrency(), processor(), load());
  tables(repeats);
  rows("Points that dominate rows of the paper", kBeyond, repeats);
  rows("What is refuted", kRefuted, repeats);
  const std::vector<Collective> all{allgather, allreduce, alltoall, broadcast, gather};
  frontiers({{"dgx1v", all}, {"z52", all}}, "Frontiers of the paper's machines", 10);
  parts(5);
  const std::vector<Collective> four{allgather, allreduce, alltoall, broadcast};
  frontiers({{"dgx2", four}, {"mi250x", four}, {"2*dgx1v", four}, {"z52-full", four}}, "Beyond the paper", 10);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print("\nLargest resident memory of all this: {} MiB.\n", usage.ru_maxrss / 1024);
}
