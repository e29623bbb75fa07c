#include "hybrid.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "treegen/packing/pack.h"
#include "treegen/schedules/to_schedule.h"

namespace sccl::treegen {
namespace {

constexpr double kBytesPerUsAtOneGbyte = 1000;

double slowest_lane_gbytes_per_s(const Topology& topology) {
  double slowest = std::numeric_limits<double>::infinity();
  for (const topology::Link& link : topology.links) slowest = std::min(slowest, link.gbytes_per_s / link.lanes);
  return slowest;
}

}  // namespace

double slow_share_bytes(double total_bytes, const TreeSet& fast, const TreeSet& slow) {
  const double both = fast.gbytes_per_s + slow.gbytes_per_s;
  if (!(both > 0)) return 0;
  const double late_us = slow.ready_after_us - fast.ready_after_us;
  const double bytes = total_bytes * slow.gbytes_per_s / both -
                       late_us * kBytesPerUsAtOneGbyte * slow.gbytes_per_s * fast.gbytes_per_s / both;
  return std::clamp(bytes, 0.0, total_bytes);
}

double packed_gbytes_per_s(const Topology& topology, Collective collective, Rank root) {
  const PackOptions by_bandwidth{CapacityUnit::gbytes_per_s, TreeWeights::any};
  return to_double(pack(topology, collective, root, by_bandwidth).rate) * slowest_lane_gbytes_per_s(topology);
}

HybridPlan hybrid(const Topology& fast, const Topology& slow, Collective collective, Rank root, double bytes,
                  double switch_us) {
  if (fast.ranks != slow.ranks)
    fail(ErrorCode::invalid_argument, "'{}' has {} ranks and '{}' has {}: hybrid transfers need the same devices",
         fast.name, fast.ranks, slow.name, slow.ranks);
  if (!(bytes >= 0) || !(switch_us >= 0) || !std::isfinite(bytes + switch_us))
    fail(ErrorCode::invalid_argument, "{} bytes and {} us to switch links: give finite figures, not negative", bytes,
         switch_us);
  const PackOptions by_bandwidth{CapacityUnit::gbytes_per_s, TreeWeights::any};
  const auto packed_fast = pack(fast, collective, root, by_bandwidth);
  const auto packed_slow = pack(slow, collective, root, by_bandwidth);
  const TreeSet at_once{to_double(packed_fast.rate) * slowest_lane_gbytes_per_s(fast), 0};
  const TreeSet late{to_double(packed_slow.rate) * slowest_lane_gbytes_per_s(slow), switch_us};
  const double slow_bytes = slow_share_bytes(bytes, at_once, late);
  HybridPlan plan{to_schedule(fast, packed_fast), to_schedule(slow, packed_slow), 0, 0, 0};
  plan.slow_fraction = bytes > 0 ? slow_bytes / bytes : 0;
  plan.fast_alone_us = bytes / (at_once.gbytes_per_s * kBytesPerUsAtOneGbyte);
  plan.predicted_us = (bytes - slow_bytes) / (at_once.gbytes_per_s * kBytesPerUsAtOneGbyte);
  return plan;
}

}  // namespace sccl::treegen
