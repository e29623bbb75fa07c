#include "portfolio/composites/ranked.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "compose/lowering/expand.h"

namespace sccl::portfolio {
namespace {

// In slices of the host's share, at about 0.25 us each: half for the share itself, half for its simulation.
constexpr double kMostWork = 300000;
// A composite whose closed form is so many times the fastest simulated time is not simulated. On clusters of 40 to 128
// ranks the closed form is between 0.8 and 1.3 times the simulated time.
constexpr double kHopeless = 1.5;
constexpr int kAllOfFamily = 1 << 20;

double work_of(const CompositeCandidate& one, double bytes, double slice_bytes) {
  const double sends = static_cast<double>(compose::about_sends(*one.composite));
  const double slices = std::max(1.0, std::ceil(one.cost.chunk_per_byte * bytes / slice_bytes));
  return sends / static_cast<double>(one.composite->hosts.size()) * slices;
}

// Shape and level, whatever the frames.
std::string_view family(const CompositeCandidate& one) {
  const std::string_view name = one.composite->name;
  return name.substr(0, name.find('/', name.find('/') + 1));
}

// Simulates the most promising composites, and knows the least time of them.
class Simulations {
 public:
  Simulations(const std::vector<CompositeCandidate>& candidates, const compose::HostShares& shares,
              const schedule::SimulationOptions& options)
      : candidates_(candidates), shares_(shares), options_(options) {}

  // At most so many of each family, in this order, as long as there is time. Frames of one shape take about as long;
  // shapes differ.
  void run(std::vector<RankedComposite>& order, int most_of_family) {
    std::map<std::string_view, int> taken;
    for (RankedComposite& one : order) {
      const CompositeCandidate& candidate = candidates_[one.candidate];
      if (one.simulated || refused_.contains(one.candidate)) continue;
      if (one.time_us >= kHopeless * least_us_) return;
      if (taken[family(candidate)] == most_of_family) continue;
      const double work = work_of(candidate, options_.bytes, one.slice_bytes);
      if (work_ + work > kMostWork) continue;
      const auto share = shares_.of(*candidate.composite);
      if (!share) {
        refused_.insert(one.candidate);
        continue;
      }
      work_ += work;
      ++taken[family(candidate)];
      simulate(one, *share);
    }
  }

  // What was not simulated is as far from its closed form as the fastest.
  void guess(std::vector<RankedComposite>& order) const {
    if (!std::isfinite(least_us_)) return;
    for (RankedComposite& one : order)
      if (!one.simulated && !refused_.contains(one.candidate) && shares_.serves(*candidates_[one.candidate].composite))
        one.time_us *= over_closed_form_;
  }

 private:
  void simulate(RankedComposite& one, const schedule::HostShare& share) {
    schedule::SimulationOptions options = options_;
    options.slice_bytes = one.slice_bytes;
    options.stop_after_us = least_us_;
    const double us = schedule::Simulator(share).run(options).time_us;
    if (us < least_us_) {
      least_us_ = us;
      over_closed_form_ = us / one.time_us;
    }
    one.simulated = true;
    one.time_us = us;
  }

  const std::vector<CompositeCandidate>& candidates_;
  const compose::HostShares& shares_;
  const schedule::SimulationOptions& options_;
  double work_ = 0;
  double least_us_ = std::numeric_limits<double>::infinity();
  double over_closed_form_ = 1;  // the least time
  std::set<std::size_t> refused_;
};

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
  Simulations simulations(candidates, shares, options);
  for (const int most_of_family : {2, kAllOfFamily}) simulations.run(order, most_of_family);
  simulations.guess(order);
  std::stable_sort(order.begin(), order.end(), earlier);
  return order;
}

}  // namespace sccl::portfolio
