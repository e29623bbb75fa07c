// Kills one of 8 ranks at a random time in a large AllReduce, again and again, and prints as Markdown how long the
// survivors took to name it, and everything that went wrong. Exit code 1 when anything did.
//
// Usage: bench_faults [REPETITIONS [SEED]]   (200 and a random seed)
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <vector>

#include "harness.h"
#include "moments.h"

using namespace faults_test;

namespace {

constexpr int kRanks = 8;
constexpr std::size_t kElements = 4000000;
constexpr double kLimitSeconds = 2;

struct Tally {
  std::vector<double> seconds;
  int hangs = 0;
  int wrong = 0;
};

std::size_t shared_files() {
  std::size_t count = 0;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator("/dev/shm", error);
       entry != std::filesystem::directory_iterator(); ++entry)
    ++count;
  return count;
}

std::string complaint(const RankReport& report, int victim) {
  const std::string named = "rank " + std::to_string(victim) + " (process";
  const std::string unreachable = "memory of rank " + std::to_string(victim) + " ";
  if (!report.finished) return "did not finish: " + report.afterwards;
  if (report.result != ncclRemoteError) return std::string(ncclGetErrorString(report.result)) + ": " + report.text;
  if (report.text.find(named) == std::string::npos && report.text.find(unreachable) == std::string::npos)
    return "does not name rank " + std::to_string(victim) + ": " + report.text;
  if (report.seconds_after_fault > kLimitSeconds) return "took " + std::to_string(report.seconds_after_fault) + " s";
  return report.afterwards;
}

void repeat_once(unsigned seed, Tally& tally) {
  Plan plan{Fault::kill, all_reduces("an AllReduce of 16 MB", kElements, 1000)};
  plan.ranks = kRanks;
  plan.seed = seed;
  plan.victim = static_cast<int>(seed % kRanks);
  const Outcome outcome = run(plan);
  if (outcome.hung) {
    ++tally.hangs;
    std::printf("seed %u hung: %s\n", seed, outcome.places.c_str());
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == plan.victim) continue;
    const RankReport& report = outcome.ranks[static_cast<std::size_t>(rank)];
    tally.seconds.push_back(report.seconds_after_fault);
    const std::string wrong = complaint(report, plan.victim);
    if (wrong.empty()) continue;
    ++tally.wrong;
    std::printf("seed %u rank %d: %s\n", seed, rank, wrong.c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int repetitions = argc > 1 ? std::atoi(argv[1]) : 200;
  const unsigned seed = argc > 2 ? static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10)) : std::random_device{}();
  const std::size_t files_before = shared_files();
  const Census before = census();
  std::printf("# One of %d ranks killed in an AllReduce of %zu MB\n\n", kRanks, kElements * sizeof(float) / 1000000);
  std::printf("Command: `bench_faults %d %u`\n\n", repetitions, seed);
  std::mt19937 random(seed);
  Tally tally;
  for (int i = 0; i < repetitions; ++i) repeat_once(static_cast<unsigned>(random()), tally);
  const std::string leaks = settled_census(before).difference(before);
  std::sort(tally.seconds.begin(), tally.seconds.end());
  const auto at = [&](double share) {
    return 1000 * tally.seconds[static_cast<std::size_t>(share * static_cast<double>(tally.seconds.size() - 1))];
  };
  std::printf(
      "| survivors' calls | median ms | 99 %% ms | longest ms | hangs | wrong | left over "
      "|\n|---|---|---|---|---|---|---|\n");
  std::printf("| %zu | %.0f | %.0f | %.0f | %d | %d | %s%zu files in /dev/shm |\n", tally.seconds.size(), at(0.5),
              at(0.99), at(1), tally.hangs, tally.wrong, leaks.c_str(), shared_files() - files_before);
  return tally.hangs + tally.wrong > 0 || !leaks.empty() || shared_files() > files_before ? 1 : 0;
}
