#include "schedule/simulation/cost.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/error.h"
#include "schedule/simulation/channels.h"

namespace sccl::schedule {
namespace {

constexpr double kBytesPerUsAtOneGbytePerS = 1e3;

// The block that a chunk's weight is relative to: the part of the buffer that goes from one rank to one other rank.
int block_of(const Schedule& schedule, ChunkId chunk) {
  switch (schedule.collective) {
    case Collective::allgather:
    case Collective::gather:
    case Collective::reducescatter:
    case Collective::scatter:
      return chunk % schedule.ranks;
    case Collective::alltoall:
      return chunk % (schedule.ranks * schedule.ranks);
    default:
      return 0;
  }
}

// Number of blocks in the L of one rank.
int blocks_per_buffer(Collective collective, int ranks) {
  switch (collective) {
    case Collective::reducescatter:
    case Collective::scatter:
    case Collective::alltoall:
      return ranks;
    default:
      return 1;
  }
}

// The load of one step: as a number of equal chunks, or by weight.
struct Load {
  int chunks = 0;
  double sum = 0;
  double largest = 0;

  void add(double fraction) {
    ++chunks;
    sum += fraction;
    largest = std::max(largest, fraction);
  }
  // The fraction of L on the fullest lane, when no chunk is split over lanes.
  double on_fullest_lane(int lanes, bool equal) const {
    if (equal) return largest * std::ceil(static_cast<double>(chunks) / lanes);
    return std::max(largest, sum / lanes);
  }
  double spread(int lanes) const { return sum / lanes; }
};

// Loads of one step, or of a whole pipelined schedule.
class Beat {
 public:
  Beat(const Schedule& schedule, const EdgeIndex& edges)
      : schedule_(schedule),
        edges_(edges),
        loads_(static_cast<std::size_t>(edges.size())),
        set_loads_(schedule.topology.shared.size()) {}

  void add(std::span<const EdgeId> path, double fraction) {
    double alpha_us = 0;
    for (const EdgeId edge : path) {
      alpha_us += edges_[edge].alpha_us;
      Load& load = loads_[static_cast<std::size_t>(edge)];
      if (load.chunks == 0) touched_.push_back(edge);
      load.add(fraction);
      for (const int set : edges_.sets_of(edge)) set_loads_[static_cast<std::size_t>(set)].add(fraction);
    }
    alpha_us_ = std::max(alpha_us_, alpha_us);
  }

  // Latency, and time per byte of L, of the loads added since the last call.
  LinearCost take() {
    LinearCost cost{alpha_us_, 0};
    const bool equal = schedule_.weights.empty();
    const auto longest = [&](const Load& load, int lanes, double lane_us_per_byte) {
      const int channels = channels_of(lanes, lanes / (lane_us_per_byte * kBytesPerUsAtOneGbytePerS));
      const double fraction = schedule_.pipelined ? load.spread(channels) : load.on_fullest_lane(channels, equal);
      cost.us_per_byte = std::max(cost.us_per_byte, fraction * (lane_us_per_byte / lanes * channels));
    };
    for (const EdgeId edge : touched_) {
      longest(loads_[static_cast<std::size_t>(edge)], edges_[edge].lanes,
              lane_us_per_byte(edges_[edge], schedule_.topology));
      loads_[static_cast<std::size_t>(edge)] = {};
    }
    for (std::size_t set = 0; set < set_loads_.size(); ++set) {
      if (set_loads_[set].chunks == 0) continue;
      const double rate = edges_.set_lane_gbytes_per_s(static_cast<int>(set)) * kBytesPerUsAtOneGbytePerS;
      longest(set_loads_[set], schedule_.topology.shared[set].lanes, 1 / rate);
      set_loads_[set] = {};
    }
    touched_.clear();
    alpha_us_ = 0;
    return cost;
  }

 private:
  const Schedule& schedule_;
  const EdgeIndex& edges_;
  std::vector<Load> loads_;
  std::vector<Load> set_loads_;
  std::vector<EdgeId> touched_;
  double alpha_us_ = 0;
};

}  // namespace

double lane_us_per_byte(const EdgeInfo& edge, const topology::Topology& topology) {
  if (!(edge.gbytes_per_s > 0))
    fail(ErrorCode::invalid_argument,
         "topology '{}': link {}->{} has no bandwidth, so no time can be predicted: give its gbytes_per_s",
         topology.name, edge.ends.first, edge.ends.second);
  return 1 / (edge.lane_gbytes_per_s() * kBytesPerUsAtOneGbytePerS);
}

double SteppedCost::time_us(double alpha_us, double beta_us_per_byte, double bytes) const {
  return steps * alpha_us + rounds_per_chunk() * bytes * beta_us_per_byte;
}

SteppedCost stepped_cost(const Schedule& schedule) {
  return {schedule.steps, std::accumulate(schedule.rounds.begin(), schedule.rounds.end(), 0), schedule.chunks_per_rank};
}

LinearCost linear_cost(const Schedule& schedule, int slices) {
  const EdgeIndex edges(schedule.topology);
  EdgePaths paths(schedule.topology, edges, schedule.sends.size());
  const std::vector<double> fractions = chunk_fractions(schedule);
  const std::vector<int> order = order_by_step(schedule);
  Beat beat(schedule, edges);
  LinearCost total;
  for (std::size_t at = 0; at < order.size(); ++at) {
    const Send& send = schedule.sends[static_cast<std::size_t>(order[at])];
    beat.add(paths.of(send.src, send.dst), fractions[static_cast<std::size_t>(send.chunk)]);
    const bool step_ends =
        at + 1 == order.size() || schedule.sends[static_cast<std::size_t>(order[at + 1])].step != send.step;
    if (schedule.pipelined || !step_ends) continue;
    const LinearCost step = beat.take();
    total.fixed_us += step.fixed_us;
    total.us_per_byte += step.us_per_byte;
  }
  if (!schedule.pipelined || order.empty()) return total;
  const LinearCost slice = beat.take();
  const double beats = schedule.steps - 1 + slices;
  return {beats * slice.fixed_us, beats * slice.us_per_byte / slices};
}

double busiest_us_per_byte(const Schedule& schedule) {
  const EdgeIndex edges(schedule.topology);
  topology::Routes routes(schedule.topology);
  const std::vector<double> fractions = chunk_fractions(schedule);
  const auto ranks = static_cast<std::size_t>(schedule.ranks);
  std::vector<double> passed(ranks * ranks, 0);  // from rank to rank
  for (const Send& send : schedule.sends)
    passed[static_cast<std::size_t>(send.src) * ranks + static_cast<std::size_t>(send.dst)] +=
        fractions[static_cast<std::size_t>(send.chunk)];
  std::vector<double> busy(static_cast<std::size_t>(edges.size()) + schedule.topology.shared.size(), 0);
  for (std::size_t pair = 0; pair < passed.size(); ++pair) {
    if (passed[pair] <= 0) continue;
    for (const topology::Edge& ends : routes.path(static_cast<Rank>(pair / ranks), static_cast<Rank>(pair % ranks))) {
      const EdgeId edge = edges.find(ends);
      const double on_one_lane = passed[pair] * lane_us_per_byte(edges[edge], schedule.topology);
      busy[static_cast<std::size_t>(edge)] += on_one_lane / edges[edge].lanes;
      for (const int set : edges.sets_of(edge))
        busy[static_cast<std::size_t>(edges.size() + set)] +=
            on_one_lane / schedule.topology.shared[static_cast<std::size_t>(set)].lanes;
    }
  }
  return busy.empty() ? 0 : *std::max_element(busy.begin(), busy.end());
}

std::vector<double> chunk_fractions(const Schedule& schedule) {
  std::vector<double> fractions(static_cast<std::size_t>(schedule.chunks), 1.0 / schedule.chunks_per_rank);
  if (schedule.weights.empty()) return fractions;
  std::map<int, double> block_weight;
  for (ChunkId chunk = 0; chunk < schedule.chunks; ++chunk)
    block_weight[block_of(schedule, chunk)] += schedule.weights[static_cast<std::size_t>(chunk)];
  for (ChunkId chunk = 0; chunk < schedule.chunks; ++chunk) {
    const double block = block_weight[block_of(schedule, chunk)];
    const double share = block > 0 ? schedule.weights[static_cast<std::size_t>(chunk)] / block : 0;
    fractions[static_cast<std::size_t>(chunk)] = share / blocks_per_buffer(schedule.collective, schedule.ranks);
  }
  return fractions;
}

double buffer_bytes(Collective collective, int ranks, double bytes) {
  return bytes * blocks_per_buffer(collective, ranks);
}

double buffer_bytes(const Schedule& schedule, double count, double element_bytes) {
  return buffer_bytes(schedule.collective, schedule.ranks, count * element_bytes);
}

}  // namespace sccl::schedule
