#include "figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "schedule/proof/verify.h"
#include "schedule/simulation/simulate.h"
#include "treegen/graph/frames.h"
#include "treegen/packing/rings.h"
#include "treegen/schedules/to_schedule.h"

namespace sccl::bench {

double simulated_us(const schedule::Schedule& schedule, double bytes) {
  schedule::verify(schedule);
  schedule::SimulationOptions options;
  options.bytes = bytes;
  options.detail = schedule::Detail::totals;
  double best = std::numeric_limits<double>::infinity();
  for (const int frames : {1, 8, 32, 96, 256})
    best = std::min(best, schedule::simulate(treegen::in_frames(schedule, frames), options).time_us);
  return best;
}

double offered_us(const topology::Topology& part, const treegen::Packing& packing) {
  const double trees = simulated_us(treegen::to_schedule(part, packing), kBytes);
  const auto around = treegen::rings(part, packing.collective, packing.root);
  return around ? std::min(trees, simulated_us(*around, kBytes)) : trees;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

std::string summary(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return fmt::format("least {:.2f}, most {:.2f}, geometric mean {:.2f}", *least, *most, geometric_mean(values));
}

std::string list(const std::vector<int>& devices) { return fmt::format("{}", fmt::join(devices, " ")); }

}  // namespace sccl::bench
