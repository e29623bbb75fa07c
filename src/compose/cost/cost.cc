#include "compose/cost/cost.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "compose/cost/known_hosts.h"
#include "schedule/simulation/simulate.h"

namespace sccl::compose {
namespace {

constexpr double kLeastSlice = 4096;
constexpr double kGap = 1.8;           // of a step, in latencies, as simulated with 64 and 128 ranks
constexpr double kMostGap = 0.87;      // the same of messages that take no time
constexpr double kPassing = 0.58;      // the part of a frame's messages that fills gaps, if frames follow in each step
constexpr double kSpareSlots = 1.1;    // on hosts, where chunks come at uneven times
constexpr double kFewMessages = 0.42;  // the part of the busiest link's time that steps between frames do not hide
// A step between frames of one root, in latencies between hosts or on them: fitted to 64 frames 4 and 8 steps apart on
// 8 hosts of dgx1p, z52 and z52-full, 8 and 64 MiB.
constexpr double kStepOfHosts = 0.43;
constexpr double kStepOfSums = 0.6;
constexpr double kStepOfDevices = 0.8;
constexpr double kTooFewSlots = 10;  // fitted to simulations of 64 ranks

}  // namespace

double Phase::slice_us(double slice) const {
  return std::max(std::min(slice, schedule::kLaneBytes) * us_per_byte, slice * link_us_per_byte);
}

double Phase::stretch(double slice, int sharing) const {
  const double lane_us = slice_us(slice);
  const int under_way = slice > schedule::kLaneBytes ? schedule::kSlots : slots;
  return lane_us > 0 ? (alpha_us + lane_us) / (under_way * sharing * lane_us) : 0;
}

double Connection::us(double bytes_of_call, double slice) const {
  if (slice <= 0) return 0;
  const double message = std::min(slice, std::max(schedule::kLaneBytes, slice / lanes));
  const int under_way = slice > schedule::kLaneBytes ? schedule::kSlots : slots;
  const double in_line = bytes * bytes_of_call / message / (under_way * lanes);
  return std::max(0.0, in_line - 1) * (alpha_us + message * us_per_byte);
}

double Gaps::us(const Phase& between_hosts, double slice) const {
  if (steps == 0) return 0;
  const double most = kMostGap * between_hosts.alpha_us;
  if (frames == Frames::in_each_step)
    return steps * std::max(least * between_hosts.alpha_us,
                            most - kPassing * messages_of_step * slice * between_hosts.link_us_per_byte);
  const double hidden = 1 - 1 / std::max(1.0, messages_in_line);
  const double passing_us = messages_of_step * slice * between_hosts.link_us_per_byte;
  return steps * std::clamp(kGap * between_hosts.alpha_us - hidden * passing_us, 0.0, most);
}

Cost Cost::with_slots(int on_host_slots, int network_slots) const {
  Cost cost = *this;
  cost.on_host.slots = cost.on_host_connection.slots = on_host_slots;
  cost.between_hosts.slots = network_slots;
  return cost;
}

Cost Cost::without_waiting() const {
  Cost cost = *this;
  cost.waiting_us_per_byte = 0;
  cost.gaps = {};
  cost.steps_of_frames = 0;
  cost.on_host_connection = {};
  cost.late_chunks = false;
  return cost;
}

double Cost::busy_us(double bytes) const { return std::max(network_us_per_byte, host_us_per_byte) * bytes; }

// Each chunk is an operation of its own, which costs more than the links' time if the chunk is short.
double Cost::time_us(double bytes, double slice_bytes) const {
  const double chunk = chunk_per_byte * bytes;
  const double shorter = chunk > 0 ? std::max(0.0, std::log2(kLeastSlice / chunk)) : 0;
  return (1 + short_chunk * shorter) * time_of_links_us(bytes, slice_bytes);
}

double Cost::time_of_links_us(double bytes, double slice_bytes) const {
  const double chunk = chunk_per_byte * bytes;
  const double slices = slice_bytes > 0 ? std::max(1.0, std::ceil(chunk / slice_bytes - 1e-9)) : 1;
  const double slice = chunk / slices;
  const double hop_us = between_hosts.alpha_us + between_hosts.slice_us(slice);
  const double hops = between_hosts.steps * hop_us;
  const double way = hops + on_host.time_us(slice);
  const double rounds = one_depth ? 0 : slices - 1;
  const double in_addition = late_chunks ? rounds * way : 0;
  // The first slices of a connection find its slots free.
  const auto passed = [&](const Phase& phase, double us_per_byte, int sharing, double spare = 1) {
    const double us = us_per_byte * bytes;
    if (own_connections) return us;
    return std::max(us, us * spare * phase.stretch(slice, sharing) - phase.alpha_us - phase.slice_us(slice));
  };
  // Where a connection on a host passes chunks in one step alone, those of the next frame follow at once.
  const double step_us =
      std::max((sums ? kStepOfSums : kStepOfHosts) * between_hosts.alpha_us, kStepOfDevices * on_host.alpha_us);
  const double frames_us = steps_of_frames == 0 ? 0 : steps_of_frames * step_us + kFewMessages * busy_us(bytes);
  const double gaps_us = (rounds + 1) * gaps.us(between_hosts, slice);
  // A connection that makes up for what it waited for has its links alone, and its own slots.
  const double alone = nothing_returns ? 1 : 1 + kTooFewSlots * std::max(0.0, on_host.stretch(slice, 1) - 1);
  const double busy =
      alone * waiting_us_per_byte * bytes +
      std::max({frames_us, passed(between_hosts, network_us_per_byte, between_hosts.connections) + gaps_us,
                passed(between_hosts, one_connection_us_per_byte, 1),
                own_connections ? 0 : on_host_connection.us(bytes, slice),
                passed(on_host, host_us_per_byte, on_host.connections,
                       (late_chunks || one_depth) && nothing_returns ? kSpareSlots : 1)});
  // The slices of a block follow one another on the links, which are as busy as they are.
  const double one_by_one = own_connections ? 0 : rounds * way;
  if (!chained) return std::max(least_us, std::max(busy, one_by_one) + way + in_addition);
  // The chunks of a root pass the ring one behind the other: each a step later if frames are, or once it is sent.
  const double behind_us = gaps.frames == Gaps::Frames::in_each_step ? (frames - 1) * hop_us : 0;
  const double chain = hops + std::max((chunk * frames - slice) * between_hosts.us_per_byte, behind_us);
  return std::max({busy + between_hosts.alpha_us, chain, (rounds + 1) * hops}) + on_host.time_us(slice) + in_addition;
}

double Cost::good_slice(double bytes, double most_slice_bytes) const {
  constexpr double kNearlyLeast = 1.005;
  std::vector<std::pair<double, double>> slices;  // time, slice
  for (double slice = std::max(kLeastSlice, most_slice_bytes); slice >= kLeastSlice; slice /= 2)
    for (const double part : {1.0, 0.75}) slices.emplace_back(time_us(bytes, part * slice), part * slice);
  const double wanted = kNearlyLeast * std::min_element(slices.begin(), slices.end())->first;
  return std::find_if(slices.begin(), slices.end(), [&](const auto& one) { return one.first <= wanted; })->second;
}

CostModel::CostModel(std::shared_ptr<const topology::Topology> topology,
                     std::shared_ptr<const topology::Cluster> cluster)
    : topology_(std::move(topology)),
      cluster_(std::move(cluster)),
      edges_(*topology_),
      ways_(*topology_, *cluster_),
      known_(std::make_unique<KnownHosts>()) {}
CostModel::CostModel(const CostModel& other)
    : topology_(other.topology_),
      cluster_(other.cluster_),
      edges_(other.edges_),
      ways_(other.ways_),
      known_(std::make_unique<KnownHosts>()) {}
CostModel::~CostModel() = default;

}  // namespace sccl::compose
