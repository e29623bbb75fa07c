#include "synth/encoding.h"

#include <algorithm>
#include <map>

namespace sccl::synth {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// By element and hop: the hop whose image this hop is.
std::vector<Permutation> inverses(const std::vector<Permutation>& permutations) {
  std::vector<Permutation> result;
  for (const Permutation& permutation : permutations) {
    Permutation inverse(permutation.size());
    for (std::size_t i = 0; i < permutation.size(); ++i) inverse[at(permutation[i])] = static_cast<int>(i);
    result.push_back(std::move(inverse));
  }
  return result;
}

// The steps in which a hop can usefully carry a chunk of the commodity: from the first step in which its source can
// have the chunk, to the last step after which its destination can still reach a sink in time.
struct Window {
  int first = 0;
  int last = -1;
};

class Windows {
 public:
  Windows(const Problem& problem, const Commodity& commodity, int steps)
      : problem_(problem), from_(problem.distance[at(commodity.source)]), steps_(steps) {
    for (Rank rank = 0; rank < problem.ranks; ++rank) to_.push_back(problem.distance_to_sinks(commodity, rank));
    source_ = commodity.source;
  }
  Window of(int hop) const {
    const auto [src, dst] = problem_.hops[at(hop)];
    if (dst == source_) return {};
    return {from_[at(src)], steps_ - 1 - to_[at(dst)]};
  }

 private:
  const Problem& problem_;
  const std::vector<int>& from_;
  std::vector<int> to_;
  int steps_;
  Rank source_ = 0;
};

}  // namespace

Encoding::Encoding(const Problem& problem, const Action& action, int rounds, const std::vector<RoundsRange>& ranges)
    : problem_(problem), action_(action), steps_(static_cast<int>(ranges.size())), rounds_(rounds), ranges_(ranges) {
  sent_.assign(action.orbits.size() * problem.hops.size() * at(steps_), 0);
  for (const Action::Orbit& orbit : action.orbits) add_chunk(orbit);
  add_rounds();
  add_capacities();
}

int& Encoding::sent(std::size_t orbit, int hop, int step) {
  return sent_[(orbit * problem_.hops.size() + at(hop)) * at(steps_) + at(step)];
}

int Encoding::sent(std::size_t orbit, int hop, int step) const {
  return sent_[(orbit * problem_.hops.size() + at(hop)) * at(steps_) + at(step)];
}

void Encoding::add_chunk(const Action::Orbit& orbit) {
  const std::size_t which = static_cast<std::size_t>(&orbit - action_.orbits.data());
  const Commodity& commodity = problem_.commodities[at(orbit.representative.commodity)];
  const Windows windows(problem_, commodity, steps_);
  const auto& from = problem_.distance[at(commodity.source)];
  // present[rank][t] for t in from[rank] .. steps; constants outside.
  const auto ranks = at(problem_.ranks);
  std::vector<std::vector<int>> present(ranks, std::vector<int>(at(steps_) + 1, 0));
  const int always = cnf_.fresh();
  cnf_.clause({always});
  for (Rank rank = 0; rank < problem_.ranks; ++rank)
    for (int t = 0; t <= steps_; ++t) {
      int& literal = present[at(rank)][at(t)];
      if (rank == commodity.source || (t == steps_ && commodity.sinks[at(rank)]))
        literal = always;
      else if (t < from[at(rank)])
        literal = -always;
      else
        literal = cnf_.fresh();
    }
  for (Rank rank = 0; rank < problem_.ranks; ++rank) {
    if (rank == commodity.source) continue;
    for (int t = 0; t < steps_; ++t) {
      const int before = present[at(rank)][at(t)];
      const int after = present[at(rank)][at(t) + 1];
      cnf_.clause({-before, after});
      std::vector<int> causes{-after, before};
      for (const int hop : problem_.hops_into[at(rank)]) {
        const Window window = windows.of(hop);
        if (t < window.first || t > window.last) continue;
        const int literal = sent(which, hop, t) = cnf_.fresh();
        cnf_.clause({-literal, present[at(problem_.hops[at(hop)].src)][at(t)]});
        cnf_.clause({-literal, -before});
        cnf_.clause({-literal, after});
        causes.push_back(literal);
      }
      cnf_.clause(causes);
      // At most one arrival: further arrivals in the same step are useless.
      if (causes.size() <= 10)
        for (std::size_t i = 2; i < causes.size(); ++i)
          for (std::size_t j = i + 1; j < causes.size(); ++j) cnf_.clause({-causes[i], -causes[j]});
    }
  }
}

void Encoding::add_rounds() {
  std::vector<int> all;
  int spare = rounds_;
  for (const RoundsRange& range : ranges_) {
    std::vector<int>& levels = rounds_at_least_.emplace_back();
    for (int rounds = range.least + 1; rounds <= range.most; ++rounds) {
      levels.push_back(cnf_.fresh());
      if (levels.size() > 1) cnf_.clause({-levels.back(), levels[levels.size() - 2]});
      all.push_back(levels.back());
    }
    spare -= range.least;
  }
  if (spare >= static_cast<int>(all.size())) return;
  const std::vector<int> total = count(all, spare + 1);
  cnf_.clause({-total[at(spare)]});
}

void Encoding::add_capacities() {
  // The position of each chunk: its orbit, and the element that maps the representative to it.
  const std::vector<Permutation> back = inverses(action_.hops);
  std::vector<bool> done(problem_.capacities.size(), false);
  for (std::size_t i = 0; i < problem_.capacities.size(); ++i) {
    if (done[i]) continue;
    for (const Permutation& element : action_.capacities) done[at(element[i])] = true;
    const Capacity& capacity = problem_.capacities[i];
    for (int s = 0; s < steps_; ++s) {
      const RoundsRange range = ranges_[at(s)];
      std::vector<int> literals;
      for (const Capacity::Term& term : capacity.terms)
        for (const Permutation& element : back)
          for (std::size_t orbit = 0; orbit < action_.orbits.size(); ++orbit)
            if (const int literal = sent(orbit, element[at(term.hop)], s); literal != 0)
              literals.insert(literals.end(), at(term.times), literal);
      const std::vector<int> sums = count(std::move(literals), capacity.lanes * range.most + 1);
      for (int rounds = range.least; rounds <= range.most; ++rounds) {
        const std::size_t too_many = at(capacity.lanes * rounds);
        if (too_many >= sums.size()) break;
        if (rounds < range.most)
          cnf_.clause({-sums[too_many], rounds_at_least_[at(s)][at(rounds - range.least)]});
        else
          cnf_.clause({-sums[too_many]});
      }
    }
  }
}

// The outputs of a totalizer: output i holds if more than i of the literals hold. Only the first `most` outputs are
// made, and only this direction is encoded.
std::vector<int> Encoding::count(std::vector<int> literals, int most) {
  std::vector<std::vector<int>> sums;
  for (const int literal : literals) sums.push_back({literal});
  while (sums.size() > 1) {
    std::vector<std::vector<int>> next;
    for (std::size_t i = 0; i + 1 < sums.size(); i += 2) next.push_back(merge(sums[i], sums[i + 1], most));
    if (sums.size() % 2 == 1) next.push_back(std::move(sums.back()));
    sums = std::move(next);
  }
  return sums.empty() ? std::vector<int>{} : sums.front();
}

std::vector<int> Encoding::merge(const std::vector<int>& left, const std::vector<int>& right, int most) {
  const std::size_t size = std::min(left.size() + right.size(), at(most));
  std::vector<int> sum;
  for (std::size_t i = 0; i < size; ++i) sum.push_back(cnf_.fresh());
  for (std::size_t a = 0; a <= left.size(); ++a)
    for (std::size_t b = 0; b <= right.size(); ++b) {
      if (a + b == 0 || a + b > size) continue;
      if (a == 0)
        cnf_.clause({-right[b - 1], sum[b - 1]});
      else if (b == 0)
        cnf_.clause({-left[a - 1], sum[a - 1]});
      else
        cnf_.clause({-left[a - 1], -right[b - 1], sum[a + b - 1]});
    }
  return sum;
}

std::vector<TimedHop> Encoding::solution() const {
  std::vector<TimedHop> sends;
  for (std::size_t orbit = 0; orbit < action_.orbits.size(); ++orbit)
    for (int hop = 0; hop < static_cast<int>(problem_.hops.size()); ++hop)
      for (int step = 0; step < steps_; ++step) {
        const int literal = sent(orbit, hop, step);
        if (literal == 0 || !cnf_.value(literal)) continue;
        for (std::size_t g = 0; g < action_.hops.size(); ++g) {
          const Action::Piece piece = action_.orbits[orbit].images[g];
          sends.push_back(
              {problem_.commodities[at(piece.commodity)].chunks[at(piece.piece)], action_.hops[g][at(hop)], step});
        }
      }
  return pruned(problem_, std::move(sends));
}

std::int64_t Encoding::estimate(const Problem& problem, const Action& action, const std::vector<RoundsRange>& ranges) {
  const auto orbits = static_cast<std::int64_t>(action.orbits.size());
  const auto order = static_cast<std::int64_t>(action.group.order());
  std::int64_t routes = 0;
  for (const auto& into : problem.hops_into) {
    const auto degree = static_cast<std::int64_t>(into.size());
    routes += degree * 8 + (degree <= 8 ? degree * degree : 0);
  }
  // A truncated totalizer over n literals with k outputs has about n * k / 2 ternary clauses in its lower levels and
  // (n / k) * k^2 / 2 in the upper ones.
  const auto totalizer = [](std::int64_t inputs, std::int64_t most) { return 3 * inputs * std::min(inputs, most); };
  std::int64_t literals = static_cast<std::int64_t>(ranges.size()) * orbits * routes;
  std::vector<bool> done(problem.capacities.size(), false);
  for (std::size_t i = 0; i < done.size(); ++i) {
    if (done[i]) continue;
    for (const Permutation& element : action.capacities) done[at(element[i])] = true;
    std::int64_t inputs = 0;
    for (const Capacity::Term& term : problem.capacities[i].terms) inputs += term.times * orbits * order;
    for (const RoundsRange& range : ranges)
      literals += totalizer(inputs, std::int64_t{problem.capacities[i].lanes} * range.most + 1);
  }
  std::int64_t levels = 0;
  for (const RoundsRange& range : ranges) levels += range.most - range.least;
  return literals + totalizer(levels, levels);
}

std::vector<TimedHop> pruned(const Problem& problem, std::vector<TimedHop> sends) {
  std::stable_sort(sends.begin(), sends.end(), [](const TimedHop& a, const TimedHop& b) { return a.step < b.step; });
  std::map<schedule::ChunkId, const Commodity*> commodity_of;
  for (const Commodity& commodity : problem.commodities)
    for (const schedule::ChunkId chunk : commodity.chunks) commodity_of[chunk] = &commodity;
  // Forward pass: only a rank's first arrival counts. Backward pass: an arrival is kept if the rank is a sink or sends
  // the chunk on.
  std::map<std::pair<schedule::ChunkId, Rank>, bool> arrived;
  std::vector<TimedHop> first;
  for (const TimedHop& send : sends) {
    const Rank dst = problem.hops[at(send.hop)].dst;
    if (dst == commodity_of.at(send.chunk)->source || !arrived.emplace(std::pair(send.chunk, dst), true).second)
      continue;
    first.push_back(send);
  }
  std::map<std::pair<schedule::ChunkId, Rank>, bool> needed;
  std::vector<TimedHop> result;
  for (auto send = first.rbegin(); send != first.rend(); ++send) {
    const Hop hop = problem.hops[at(send->hop)];
    if (!commodity_of.at(send->chunk)->sinks[at(hop.dst)] && !needed[{send->chunk, hop.dst}]) continue;
    needed[{send->chunk, hop.src}] = true;
    result.push_back(*send);
  }
  std::reverse(result.begin(), result.end());
  return result;
}

}  // namespace sccl::synth
