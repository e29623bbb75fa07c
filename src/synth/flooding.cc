#include "synth/flooding.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace sccl::synth {
namespace {

constexpr std::int64_t kMostWorkAStep = 4'000'000;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

class Flood {
 public:
  explicit Flood(const Problem& problem) : problem_(problem), under_(problem.hops.size()), order_(problem.hops.size()) {
    for (std::size_t c = 0; c < problem.capacities.size(); ++c)
      for (const Capacity::Term& term : problem.capacities[c].terms) under_[at(term.hop)].push_back({c, term.times});
    for (const Commodity& commodity : problem.commodities)
      for (const schedule::ChunkId id : commodity.chunks) add(commodity, id);
    std::iota(order_.begin(), order_.end(), 0);
  }

  Routed run() {
    while (open_ > 0) step();
    return std::move(result_);
  }

 private:
  struct Under {
    std::size_t capacity;
    int times;
  };
  struct Chunk {
    schedule::ChunkId id = 0;
    const Commodity* commodity = nullptr;
    Rank only_sink = -1;        // -1: the chunk has several sinks
    std::vector<bool> present;  // by rank, at the beginning of the step
    std::vector<bool> coming;   // with what the step brings
    int holders = 1;            // with what the step brings
  };

  void add(const Commodity& commodity, schedule::ChunkId id) {
    Chunk chunk{id, &commodity, -1, std::vector<bool>(at(problem_.ranks), false), {}, 1};
    chunk.present[at(commodity.source)] = true;
    chunk.coming = chunk.present;
    const auto sinks = std::count(commodity.sinks.begin(), commodity.sinks.end(), true);
    if (sinks == 1)
      chunk.only_sink =
          static_cast<Rank>(std::find(commodity.sinks.begin(), commodity.sinks.end(), true) - commodity.sinks.begin());
    open_ += static_cast<std::int64_t>(sinks);
    chunks_.push_back(std::move(chunk));
  }

  int left_to_go(const Chunk& chunk, Rank rank) const { return problem_.distance[at(rank)][at(chunk.only_sink)]; }

  bool wanted(const Chunk& chunk, const Hop& hop) const {
    if (!chunk.present[at(hop.src)] || chunk.coming[at(hop.dst)]) return false;
    if (chunk.only_sink < 0) return chunk.commodity->sinks[at(hop.dst)];
    return chunk.coming[at(hop.src)] && left_to_go(chunk, hop.dst) < left_to_go(chunk, hop.src);
  }

  // A smaller value is more urgent: few holders, or far to go.
  int urgency(const Chunk& chunk, const Hop& hop) const {
    return chunk.only_sink < 0 ? chunk.holders : -left_to_go(chunk, hop.src);
  }

  void step() {
    std::vector<int> left;
    for (const Capacity& capacity : problem_.capacities) left.push_back(capacity.lanes);
    // A new order in each step, so that no hop is always served last; the same orders in every run.
    std::shuffle(order_.begin(), order_.end(), random_);
    for (bool progress = true; progress;) {
      progress = false;
      for (const int hop : order_)
        if (send(hop, left)) progress = true;
    }
    for (Chunk& chunk : chunks_) chunk.present = chunk.coming;
    ++result_.steps;
    ++result_.rounds;
  }

  bool send(int hop, std::vector<int>& left) {
    for (const Under& under : under_[at(hop)])
      if (left[under.capacity] < under.times) return false;
    const Hop ends = problem_.hops[at(hop)];
    Chunk* best = nullptr;
    for (Chunk& chunk : chunks_)
      if (wanted(chunk, ends) && (best == nullptr || urgency(chunk, ends) < urgency(*best, ends))) best = &chunk;
    if (best == nullptr) return false;
    for (const Under& under : under_[at(hop)]) left[under.capacity] -= under.times;
    best->coming[at(ends.dst)] = true;
    if (best->only_sink >= 0) best->coming[at(ends.src)] = false;  // a chunk with one sink leaves its source
    ++best->holders;
    if (best->commodity->sinks[at(ends.dst)]) --open_;
    result_.sends.push_back({best->id, hop, result_.steps});
    return true;
  }

  const Problem& problem_;
  std::vector<std::vector<Under>> under_;  // by hop
  std::vector<int> order_;                 // of hops
  std::vector<Chunk> chunks_;
  std::int64_t open_ = 0;  // chunks that sinks wait for
  std::mt19937 random_{1};
  Routed result_;
};

}  // namespace

std::optional<Routed> flooding(const Problem& problem) {
  const std::int64_t work = std::int64_t{problem.chunks()} * static_cast<std::int64_t>(problem.hops.size());
  const bool fits = std::all_of(problem.capacities.begin(), problem.capacities.end(), [](const Capacity& capacity) {
    return std::all_of(capacity.terms.begin(), capacity.terms.end(),
                       [&](const Capacity::Term& term) { return term.times <= capacity.lanes; });
  });
  if (work > kMostWorkAStep || !fits) return std::nullopt;
  return Flood(problem).run();
}

}  // namespace sccl::synth
