#include "compose/cost/waiting.h"

#include <algorithm>
#include <cmath>

namespace sccl::compose {
namespace {

// Without frames, as a part of the busiest link's time; and after how many times the steps of a chunk it is a third.
struct Fit {
  double ring;
  double other_shapes;
  double fades;
  double idle;   // a link that is busy for this part of the time has no need to wait,
  double least;  // or not for more than this part: sums and copies meet on links, however busy others are
};
constexpr Fit kAllReduce{0.6, 0.9, 0.22, 0.8, 0.5};
constexpr Fit kReduceScatter{0.3, 0.8, 0.4, 0.93, 0};
constexpr Fit kAllGather{0.3, 0.4, 0.35, 0.93, 0};
constexpr double kFewHosts = 4;  // in longer rings more chunks are in line for each link
constexpr double kApartFades = 1.5;

const Fit& fit_of(Collective collective) {
  if (collective == Collective::allreduce) return kAllReduce;
  return collective == Collective::reducescatter ? kReduceScatter : kAllGather;
}

}  // namespace

double waiting_us_per_byte(const Composite& composite, const Routes& routes, const Cost& cost, const Apart& apart) {
  const double steps_of_chunk = routes.steps() - (composite.frames - 1) * composite.frame_steps;
  const double steps_of_frames = composite.frames * composite.frame_steps;
  const auto faded = [&](double fades) { return std::exp(-steps_of_frames / (fades * steps_of_chunk)); };
  const double network = cost.network_us_per_byte;
  const auto [least, most] = std::minmax(network, cost.host_us_per_byte);
  const Fit& fit = fit_of(composite.collective);
  const bool both_ways = composite.collective == Collective::allreduce;
  const bool ring = composite.meeting == Meeting::trees && composite.tiers.front().shape == Shape::ring &&
                    composite.tiers.front().of_roots.empty();
  const double in_line = both_ways ? std::min(1.0, kFewHosts / static_cast<double>(composite.hosts.size())) : 1;
  const double part = ring ? fit.ring * in_line : fit.other_shapes;
  const double together = std::clamp((least / most - fit.idle) / (1 - fit.idle), fit.least, 1.0);
  const double fitted = part * most * together * faded(fit.fades);
  if (!both_ways) return fitted;
  const double one_after_the_other =
      std::max(apart.sums_us_per_byte, network / 2) + std::max(apart.copies_us_per_byte, network / 2);
  return std::max(fitted, (one_after_the_other - most) * faded(kApartFades));
}

}  // namespace sccl::compose
