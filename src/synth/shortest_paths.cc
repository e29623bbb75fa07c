#include "synth/shortest_paths.h"

#include <algorithm>
#include <array>

namespace sccl::synth {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

class Router {
 public:
  explicit Router(const Problem& problem) : problem_(problem), under_(problem.hops.size()) {
    for (std::size_t c = 0; c < problem.capacities.size(); ++c)
      for (const Capacity::Term& term : problem.capacities[c].terms) under_[at(term.hop)].push_back({c, term.times});
  }

  Routed run() {
    std::size_t most = 0;
    for (const Commodity& commodity : problem_.commodities) most = std::max(most, commodity.chunks.size());
    // Routes the first piece of every commodity, then the second, and so on, so that pieces of one commodity see
    // different loads.
    for (std::size_t piece = 0; piece < most; ++piece)
      for (const Commodity& commodity : problem_.commodities)
        if (piece < commodity.chunks.size()) route(commodity, commodity.chunks[piece]);
    result_.steps = static_cast<int>(loads_.size());
    for (const std::vector<int>& loads : loads_) {
      int rounds = 1;
      for (std::size_t c = 0; c < loads.size(); ++c) rounds = std::max(rounds, rounds_of(c, loads[c]));
      result_.rounds += rounds;
    }
    return std::move(result_);
  }

 private:
  struct Under {
    std::size_t capacity;
    int times;
  };

  // From the farthest sinks backwards: each rank that needs the chunk gets it from the cheapest predecessor.
  void route(const Commodity& commodity, schedule::ChunkId chunk) {
    const std::vector<int>& distance = problem_.distance[at(commodity.source)];
    std::vector<std::vector<Rank>> needing;  // by distance
    std::vector<bool> needs(at(problem_.ranks), false);
    const auto need = [&](Rank rank) {
      if (needs[at(rank)]) return;
      needs[at(rank)] = true;
      const std::size_t depth = at(distance[at(rank)]);
      if (needing.size() <= depth) needing.resize(depth + 1);
      needing[depth].push_back(rank);
    };
    for (Rank rank = 0; rank < problem_.ranks; ++rank)
      if (commodity.sinks[at(rank)]) need(rank);
    if (loads_.size() + 1 < needing.size())
      loads_.resize(needing.size() - 1, std::vector<int>(problem_.capacities.size(), 0));
    for (std::size_t depth = needing.size(); depth-- > 1;)
      for (const Rank rank : needing[depth]) {
        const int hop = cheapest(rank, static_cast<int>(depth) - 1, distance);
        for (const Under& under : under_[at(hop)]) loads_[depth - 1][under.capacity] += under.times;
        result_.sends.push_back({chunk, hop, static_cast<int>(depth) - 1});
        need(problem_.hops[at(hop)].src);
      }
  }

  int cheapest(Rank rank, int step, const std::vector<int>& distance) const {
    int best = -1;
    std::array<double, 2> best_cost{};
    for (const int hop : problem_.hops_into[at(rank)]) {
      if (distance[at(problem_.hops[at(hop)].src)] != step) continue;
      std::array<double, 2> cost{0, 0};  // share of the tightest capacity, then the sum over all capacities
      for (const Under& under : under_[at(hop)]) {
        const double share = static_cast<double>(loads_[at(step)][under.capacity] + under.times) /
                             problem_.capacities[under.capacity].lanes;
        cost[0] = std::max(cost[0], share);
        cost[1] += share;
      }
      if (best >= 0 && cost >= best_cost) continue;
      best = hop;
      best_cost = cost;
    }
    return best;
  }

  int rounds_of(std::size_t capacity, int load) const {
    const int lanes = problem_.capacities[capacity].lanes;
    return (load + lanes - 1) / lanes;
  }

  const Problem& problem_;
  std::vector<std::vector<Under>> under_;  // by hop
  std::vector<std::vector<int>> loads_;    // by step, capacity
  Routed result_;
};

}  // namespace

Routed shortest_paths(const Problem& problem) { return Router(problem).run(); }

}  // namespace sccl::synth
