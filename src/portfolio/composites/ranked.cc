#include "portfolio/composites/ranked.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>

#include "base/error.h"
#include "compose/lowering/expand.h"

namespace sccl::portfolio {
namespace {

// In slices of the host's share, at about 0.25 us each: half for the share itself, half for its simulation.
constexpr double kMostWork = 300000;
// A composite whose closed form is so many times the fastest simulated time is not simulated. On clusters of 40 to 128
// ranks the closed form is between 0.8 and 1.3 times the simulated time.
constexpr double kHopeless = 1.5;
constexpr int kAllOfFamily = 1 << 20;
// What makes a composite slower than that, slots that are too few for its short chunks, need not hold for others.
constexpr double kMostOverClosedForm = 1.15;
constexpr double kAboutAsFast = 1.01;
constexpr double kNever = std::numeric_limits<double>::infinity();

double work_of(const CompositeCandidate& one, double bytes, double slice_bytes) {
  const double sends = static_cast<double>(compose::about_sends(*one.composite));
  const double slices = std::max(1.0, std::ceil(one.cost.chunk_per_byte * bytes / slice_bytes));
  return sends / static_cast<double>(one.composite->hosts.size()) * slices;
}

// By the closed form; of those that are about as fast the one first that takes the least work.
std::vector<RankedComposite*> by_promise(std::vector<RankedComposite>& order,
                                         const std::vector<CompositeCandidate>& candidates, double bytes) {
  std::vector<std::tuple<double, double, RankedComposite*>> all;
  const double least_us = order.empty() ? 0 : order.front().time_us;
  for (RankedComposite& one : order) {
    const double band = least_us > 0 ? std::floor(std::log(one.time_us / least_us) / std::log(kAboutAsFast)) : 0;
    all.emplace_back(band, work_of(candidates[one.candidate], bytes, one.slice_bytes), &one);
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::pair(std::get<0>(a), std::get<1>(a)) < std::pair(std::get<0>(b), std::get<1>(b));
  });
  std::vector<RankedComposite*> result;
  for (const auto& one : all) result.push_back(std::get<2>(one));
  return result;
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

  // At most so many of each family, as long as there is time. Frames of one shape take about as long; shapes differ.
  void run(const std::vector<RankedComposite*>& promising, int most_of_family) {
    std::map<std::string_view, int> taken;
    for (RankedComposite* const next : promising) {
      RankedComposite& one = *next;
      const CompositeCandidate& candidate = candidates_[one.candidate];
      if (one.simulated || refused_.contains(one.candidate)) continue;
      if (one.time_us >= kHopeless * least_us_) return;
      if (taken[family(candidate)] == most_of_family) continue;
      const double work = work_of(candidate, options_.bytes, one.slice_bytes);
      if (work_ + work > kMostWork) continue;
      work_ += work;
      const auto share = shares_.of(*candidate.composite);
      if (!share) {
        refused_.insert(one.candidate);
        continue;
      }
      ++taken[family(candidate)];
      simulate(one, *share);
    }
  }

  // What was not simulated is as far above its closed form as the fastest, and a little more: what is known comes
  // first.
  void guess(std::vector<RankedComposite>& order) const {
    if (!std::isfinite(least_us_)) return;
    for (RankedComposite& one : order)
      if (!one.simulated && !refused_.contains(one.candidate) && shares_.serves(*candidates_[one.candidate].composite))
        one.time_us *= kAboutAsFast * over_closed_form_;
  }

 private:
  // What the simulator refuses, links of thousands of lanes for example, keeps its closed form.
  void simulate(RankedComposite& one, const schedule::HostShare& share) {
    schedule::SimulationOptions options = options_;
    options.slice_bytes = one.slice_bytes;
    options.stop_after_us = least_us_;
    schedule::Simulation simulation;
    try {
      simulation = schedule::Simulator(share).run(options);
    } catch (const Error&) {
      refused_.insert(one.candidate);
      return;
    }
    one.simulated = true;
    if (simulation.stopped) {  // it takes longer than the least
      one.time_us = std::max(simulation.time_us, std::nextafter(least_us_, kNever));
      return;
    }
    if (simulation.time_us < least_us_) {
      least_us_ = simulation.time_us;
      if (one.time_us > 0) over_closed_form_ = std::clamp(least_us_ / one.time_us, 1.0, kMostOverClosedForm);
    }
    one.time_us = simulation.time_us;
  }

  const std::vector<CompositeCandidate>& candidates_;
  const compose::HostShares& shares_;
  const schedule::SimulationOptions& options_;
  double work_ = 0;
  double least_us_ = kNever;
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
  const std::vector<RankedComposite*> promising = by_promise(order, candidates, options.bytes);
  for (const int most_of_family : {2, kAllOfFamily}) simulations.run(promising, most_of_family);
  simulations.guess(order);
  // Of equal times what was simulated first.
  std::stable_sort(order.begin(), order.end(), [](const RankedComposite& a, const RankedComposite& b) {
    return a.time_us != b.time_us ? a.time_us < b.time_us : a.simulated && !b.simulated;
  });
  return order;
}

}  // namespace sccl::portfolio
