#include "portfolio/composites/ranked.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "compose/lowering/expand.h"

namespace sccl::portfolio {
namespace {

// In slices of the host's share, at about 0.25 us each: half for the share itself, half for its simulation.
constexpr double kMostWork = 200000;
// A composite whose closed form is so many times the fastest simulated time is not simulated. On clusters of 40 to 128
// ranks the closed form is between 0.8 and 1.3 times the simulated time.
constexpr double kHopeless = 1.5;

double work_of(const CompositeCandidate& one, double bytes, double slice_bytes) {
  const double sends = static_cast<double>(compose::about_sends(*one.composite));
  const double slices = std::max(1.0, std::ceil(one.cost.chunk_per_byte * bytes / slice_bytes));
  return sends / static_cast<double>(one.composite->hosts.size()) * slices;
}

void simulate(RankedComposite& one, const schedule::HostShare& share, schedule::SimulationOptions options,
              double least_us) {
  options.slice_bytes = one.slice_bytes;
  options.stop_after_us = least_us;
  const schedule::Simulation simulation = schedule::Simulator(share).run(options);
  one.simulated = true;
  one.time_us = simulation.time_us;
}

}  // namespace

std::vector<RankedComposite> ranked(const std::vector<CompositeCandidate>& candidates,
                                    const compose::HostShares& shares, const schedule::SimulationOptions& options) {
  std::vector<RankedComposite> order;
  for (std::size_t index = 0; index < candidates.size(); ++index) {
    const compose::Cost& cost = candidates[index].cost;
    const double slice = cost.good_slice(options.bytes, options.slice_bytes);
    order.push_back({index, slice, cost.time_us(options.bytes, slice)});
  }
  const auto earlier = [](const RankedComposite& a, const RankedComposite& b) { return a.time_us < b.time_us; };
  std::stable_sort(order.begin(), order.end(), earlier);
  double work = 0;
  double least_us = std::numeric_limits<double>::infinity();
  double over_closed_form = 1;  // the least one's simulated time
  auto one = order.begin();
  for (; one != order.end() && one->time_us < kHopeless * least_us; ++one) {
    const CompositeCandidate& candidate = candidates[one->candidate];
    const double its_work = work_of(candidate, options.bytes, one->slice_bytes);
    if (work + its_work > kMostWork) break;
    const auto share = shares.of(*candidate.composite);
    if (!share) continue;
    work += its_work;
    const double closed_form_us = one->time_us;
    simulate(*one, *share, options, least_us);
    if (one->time_us >= least_us) continue;
    least_us = one->time_us;
    over_closed_form = least_us / closed_form_us;
  }
  if (!std::isfinite(least_us)) return order;
  for (; one != order.end(); ++one)
    if (shares.serves(*candidates[one->candidate].composite))
      one->time_us = std::max(one->time_us * over_closed_form, least_us);
  std::stable_sort(order.begin(), order.end(), earlier);
  return order;
}

}  // namespace sccl::portfolio
