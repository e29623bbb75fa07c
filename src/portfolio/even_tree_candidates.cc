#include "portfolio/even_tree_candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "schedule/simulation/cost.h"
#include "schedule/simulation/simulate.h"
#include "schedule/simulation/steps_by_time.h"
#include "treegen/clusters/even_trees.h"
#include "treegen/schedules/to_schedule.h"

namespace sccl::portfolio {
namespace {

// More trees leave links more evenly busy, fewer trees wait for one another less.
constexpr int kTrees[] = {32, 64};
constexpr int kChunks = 512;
constexpr double kClearlyLess = 0.95;

schedule::Schedule in_frames(const topology::Topology& topology, const std::vector<treegen::Tree>& trees) {
  const auto count = static_cast<int>(trees.size());
  std::vector<schedule::Send> sends;
  for (schedule::ChunkId chunk = 0; chunk < kChunks; ++chunk) {
    const treegen::Tree& tree = trees[static_cast<std::size_t>(chunk % count)];
    treegen::add_sends({tree, tree}, chunk, chunk / count, sends);
  }
  schedule::Schedule made =
      schedule::make_schedule(std::string(kEvenTrees), Collective::allreduce, 0, topology, kChunks, std::move(sends));
  made.pipelined = true;
  return made;
}

schedule::Schedule ordered(const schedule::Schedule& schedule) {
  const std::vector<schedule::Step> steps = schedule::steps_by_time(schedule, schedule::kLaneBytes);
  std::vector<schedule::Send> sends = schedule.sends;
  for (std::size_t i = 0; i < steps.size(); ++i) sends[i].step = steps[i];
  schedule::Schedule made = schedule::make_schedule(schedule.name, schedule.collective, schedule.root,
                                                    schedule.topology, schedule.chunks_per_rank, std::move(sends));
  made.pipelined = true;
  return made;
}

double least_busy_us(const std::vector<Candidate>& candidates) {
  double least = std::numeric_limits<double>::infinity();
  for (const Candidate& one : candidates)
    least = std::min(least, one.cost != nullptr ? one.cost->busy_us(1) : schedule::busiest_us_per_byte(*one.schedule));
  return least;
}

}  // namespace

void add_even_trees(std::vector<Candidate>& result, const topology::Topology& topology, Collective collective,
                    std::string_view asked) {
  if (collective != Collective::allreduce) return;
  const double limit_us =
      asked.starts_with(kEvenTrees) ? std::numeric_limits<double>::infinity() : kClearlyLess * least_busy_us(result);
  std::vector<Candidate> found;
  for (const int count : kTrees) {
    const std::vector<treegen::Tree> trees = treegen::even_trees(topology, count);
    if (trees.empty()) return;
    const schedule::Schedule schedule = in_frames(topology, trees);
    if (schedule::busiest_us_per_byte(schedule) >= limit_us) continue;
    found.push_back({fmt::format("{}/{}x{}", kEvenTrees, count, kChunks / count), Origin::trees, ordered(schedule),
                     kChunks / count});
  }
  result.insert(result.end(), found.begin(), found.end());
}

}  // namespace sccl::portfolio
