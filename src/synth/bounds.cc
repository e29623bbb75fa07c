#include "synth/bounds.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace sccl::synth {
namespace {

constexpr std::int64_t kUnbounded = std::int64_t{1} << 40;
constexpr int kEveryStep = 0;  // the step of all arcs in networks without time
constexpr int kPieces = -1;
constexpr int kFree = -2;
constexpr int kMostSearched = 20000;  // partial distributions of rounds
constexpr int kMostTried = 300;       // complete ones
constexpr int kMostSteps = 64;        // with more steps, only cuts without time are used
// Limit for the networks of all demands together. On large machines demands are alike, so few of them give the whole
// bound.
constexpr std::size_t kMostArcs = 200'000;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Sets of ranks whose outgoing all-to-all traffic may give a bound: all sets on small machines, else neighbourhoods and
// runs of consecutive ranks.
std::set<std::vector<bool>> candidate_sets(const Problem& problem) {
  constexpr int kAllSubsetsUpTo = 8;
  std::set<std::vector<bool>> sets;
  const auto ranks = at(problem.ranks);
  if (problem.ranks <= kAllSubsetsUpTo) {
    for (unsigned bits = 1; bits + 1 < (1u << problem.ranks); ++bits) {
      std::vector<bool> set(ranks);
      for (std::size_t rank = 0; rank < ranks; ++rank) set[rank] = (bits >> rank & 1) != 0;
      sets.insert(std::move(set));
    }
    return sets;
  }
  const auto add = [&](std::vector<bool> set) {
    if (std::find(set.begin(), set.end(), false) != set.end()) sets.insert(std::move(set));
  };
  constexpr int kAllRunsUpTo = 32;
  for (Rank first = 0; first < problem.ranks; ++first) {
    std::vector<bool> run(ranks);
    for (int length = 1; length < problem.ranks; ++length) {
      run[at((first + length - 1) % problem.ranks)] = true;
      if (length == 1 || problem.ranks <= kAllRunsUpTo || length == problem.ranks / 2) add(run);
    }
    for (int radius = 1; radius < problem.ranks; ++radius) {
      std::vector<bool> ball(ranks);
      for (Rank rank = 0; rank < problem.ranks; ++rank)
        ball[at(rank)] = problem.distance[at(first)][at(rank)] <= radius;
      const bool whole = std::find(ball.begin(), ball.end(), false) == ball.end();
      add(std::move(ball));
      if (whole) break;
    }
  }
  return sets;
}

// By hop: the capacities that its arcs pass through. Capacities whose hops all leave one rank come first, because their
// arcs mix no hops of different ranks. Where arcs do mix hops, the network allows more than the topology, and the bound
// still holds.
std::vector<std::vector<int>> capacities_by_hop(const Problem& problem) {
  std::vector<std::vector<int>> under(problem.hops.size());
  for (int c = 0; c < static_cast<int>(problem.capacities.size()); ++c)
    for (const Capacity::Term& term : problem.capacities[at(c)].terms) under[at(term.hop)].push_back(c);
  for (std::size_t hop = 0; hop < under.size(); ++hop)
    std::stable_partition(under[hop].begin(), under[hop].end(), [&](int c) {
      const auto& terms = problem.capacities[at(c)].terms;
      return std::all_of(terms.begin(), terms.end(), [&](const Capacity::Term& term) {
        return problem.hops[at(term.hop)].src == problem.hops[hop].src;
      });
    });
  return under;
}

// Enumerates, depth first, the distributions of rounds over steps that meet all known cuts; each step has at least one
// round.
class Distribution {
 public:
  Distribution(int steps, int rounds) : steps_(steps), rounds_(rounds) {}

  // Calls `open` for each distribution that meets `pool`, until `open` returns true; `open` may extend `pool`. Returns
  // true when `open` did, or when the search gave up.
  bool any(const auto& pool, int pieces, auto open) {
    std::vector<int> chosen;
    return extend(chosen, rounds_, pool, pieces, open);
  }

  bool gave_up() const { return gave_up_; }

 private:
  bool extend(std::vector<int>& chosen, int left, const auto& pool, int pieces, auto& open) {
    if (++visits_ > kMostSearched) {
      gave_up_ = true;
      return true;
    }
    if (hopeless(chosen, left, pool, pieces)) return false;
    const int steps_left = steps_ - static_cast<int>(chosen.size());
    if (steps_left == 0) return open(chosen);
    const int least = steps_left == 1 ? left : 1;
    for (int rounds = least; rounds <= left - (steps_left - 1); ++rounds) {
      chosen.push_back(rounds);
      const bool found = extend(chosen, left - rounds, pool, pieces, open);
      chosen.pop_back();
      if (found) return true;
    }
    return false;
  }

  // True if some cut is violated even with all spare rounds in the best remaining step.
  bool hopeless(const std::vector<int>& chosen, int left, const auto& pool, int pieces) const {
    for (const auto& cut : pool) {
      std::int64_t sum = 0;
      for (std::size_t s = 0; s < chosen.size(); ++s) sum += std::int64_t{cut.coefficients[s]} * chosen[s];
      std::int64_t best = 0;
      int spare = left;
      for (std::size_t s = chosen.size(); s < at(steps_); ++s, --spare) {
        sum += cut.coefficients[s];
        best = std::max<std::int64_t>(best, cut.coefficients[s]);
      }
      if (sum + best * spare < std::int64_t{pieces} * cut.demand) return true;
    }
    return false;
  }

  int steps_;
  int rounds_;
  int visits_ = 0;
  bool gave_up_ = false;
};

}  // namespace

Ratio ratio(std::int64_t numerator, std::int64_t denominator) {
  const std::int64_t divisor = std::max<std::int64_t>(1, std::gcd(numerator, denominator));
  return {numerator / divisor, denominator / divisor};
}

Bounds::Bounds(const Problem& problem) : problem_(problem) {
  for (const Commodity& commodity : problem_.commodities)
    for (Rank rank = 0; rank < problem_.ranks; ++rank)
      if (commodity.sinks[at(rank)])
        least_steps_ = std::max(least_steps_, problem_.distance[at(commodity.source)][at(rank)]);
  if (!connected() || problem_.commodities.empty()) return;
  add_demands();
  for (const Demand& demand : demands_)
    least_rounds_per_piece_ = std::max(least_rounds_per_piece_, rounds_per_piece(demand));
  add_kinds();
  for (const std::vector<bool>& counted : kinds_)
    least_rounds_per_piece_ =
        std::max(least_rounds_per_piece_, ratio(volume(counted), most_chunks_a_round(counted, 0, kUnreachable)));
}

// For each share that occurs: the set of hops whose share of their tightest capacity is at most this share.
void Bounds::add_kinds() {
  std::vector<Ratio> shares(problem_.hops.size(), Ratio{kUnreachable, 1});
  for (const Capacity& capacity : problem_.capacities)
    for (const Capacity::Term& term : capacity.terms)
      shares[at(term.hop)] =
          std::min(shares[at(term.hop)], ratio(capacity.lanes, static_cast<std::int64_t>(capacity.terms.size())));
  for (const Ratio& most : std::set<Ratio>(shares.begin(), shares.end())) {
    std::vector<bool> counted;
    for (const Ratio& share : shares) counted.push_back(share <= most);
    kinds_.push_back(std::move(counted));
  }
}

// A lower bound on the counted hops that one piece of every commodity takes, summed over commodities. Hops that are not
// counted join ranks into groups. For each commodity, the bound is the larger of: the counted hops on the way to its
// farthest sink, and the number of groups that have sinks but not the source.
int Bounds::volume(const std::vector<bool>& counted) const {
  const auto ranks = at(problem_.ranks);
  std::vector<int> group(ranks);
  std::iota(group.begin(), group.end(), 0);
  std::vector<std::vector<int>> distance(ranks, std::vector<int>(ranks, kUnreachable));
  for (std::size_t rank = 0; rank < ranks; ++rank) distance[rank][rank] = 0;
  for (std::size_t i = 0; i < problem_.hops.size(); ++i) {
    const auto [src, dst] = problem_.hops[i];
    distance[at(src)][at(dst)] = counted[i] ? 1 : 0;
    if (counted[i] || group[at(src)] == group[at(dst)]) continue;
    std::replace(group.begin(), group.end(), int{group[at(src)]}, int{group[at(dst)]});
  }
  for (std::size_t via = 0; via < ranks; ++via)
    for (std::size_t from = 0; from < ranks; ++from)
      for (std::size_t to = 0; to < ranks; ++to)
        distance[from][to] = std::min(distance[from][to], distance[from][via] + distance[via][to]);
  int hops = 0;
  for (const Commodity& commodity : problem_.commodities) {
    int farthest = 0;
    std::set<int> groups;
    for (Rank rank = 0; rank < problem_.ranks; ++rank) {
      if (!commodity.sinks[at(rank)]) continue;
      farthest = std::max(farthest, distance[at(commodity.source)][at(rank)]);
      groups.insert(group[at(rank)]);
    }
    groups.erase(group[at(commodity.source)]);
    hops += std::max(farthest, static_cast<int>(groups.size()));
  }
  return hops;
}

// The most chunks that counted hops carry together in a round, over hops that some chunk can use in this step; `steps`
// = kUnreachable: in any step.
int Bounds::most_chunks_a_round(const std::vector<bool>& counted, int step, int steps) const {
  std::vector<bool> usable(problem_.hops.size(), steps == kUnreachable);
  for (const Commodity& commodity : problem_.commodities) {
    if (steps == kUnreachable) break;
    std::vector<int> to_sinks;
    for (Rank rank = 0; rank < problem_.ranks; ++rank) to_sinks.push_back(problem_.distance_to_sinks(commodity, rank));
    for (std::size_t hop = 0; hop < usable.size(); ++hop)
      if (problem_.distance[at(commodity.source)][at(problem_.hops[hop].src)] <= step &&
          to_sinks[at(problem_.hops[hop].dst)] <= steps - 1 - step)
        usable[hop] = true;
  }
  // One layer of hops from every rank to every rank, with capacities as in network().
  const int gadgets = static_cast<int>(problem_.capacities.size());
  const int heads = problem_.ranks + 2 * gadgets;
  const int source = heads + problem_.ranks;
  std::vector<topology::CapacityArc> arcs;
  for (int c = 0; c < gadgets; ++c)
    arcs.push_back({problem_.ranks + 2 * c, problem_.ranks + 2 * c + 1, problem_.capacities[at(c)].lanes});
  for (Rank rank = 0; rank < problem_.ranks; ++rank) {
    arcs.push_back({source, rank, kUnbounded});
    arcs.push_back({heads + rank, source + 1, kUnbounded});
  }
  const auto under = capacities_by_hop(problem_);
  std::set<std::pair<int, int>> joined;
  for (std::size_t hop = 0; hop < usable.size(); ++hop) {
    if (!usable[hop] || !counted[hop]) continue;
    int last = problem_.hops[hop].src;
    const auto go = [&](int node) {
      if (joined.emplace(last, node).second) arcs.push_back({last, node, kUnbounded});
    };
    for (const int c : under[hop]) {
      go(problem_.ranks + 2 * c);
      last = problem_.ranks + 2 * c + 1;
    }
    go(heads + problem_.hops[hop].dst);
  }
  return static_cast<int>(topology::minimum_cut(source + 2, arcs, source, source + 1).value);
}

void Bounds::add_demands() {
  bool copied = false;
  for (const Commodity& commodity : problem_.commodities)
    copied = copied || std::count(commodity.sinks.begin(), commodity.sinks.end(), true) > 1;
  const bool one_source = std::all_of(problem_.commodities.begin(), problem_.commodities.end(), [&](const auto& one) {
    return one.source == problem_.commodities.front().source;
  });
  const bool one_sink =
      !copied && std::all_of(problem_.commodities.begin(), problem_.commodities.end(),
                             [&](const auto& one) { return one.sinks == problem_.commodities.front().sinks; });
  if (!copied && !one_source && !one_sink) return add_sets_of_ranks();
  const auto ranks = at(problem_.ranks);
  std::vector<Demand> found;
  for (Rank sink = 0; sink < (copied ? problem_.ranks : 1); ++sink) {
    Demand demand{std::vector<int>(ranks, 0), std::vector<int>(ranks, 0), 0};
    for (const Commodity& commodity : problem_.commodities) {
      if (copied && !commodity.sinks[at(sink)]) continue;
      ++demand.supply[at(commodity.source)];
      const auto own = std::find(commodity.sinks.begin(), commodity.sinks.end(), true) - commodity.sinks.begin();
      ++demand.demand[copied ? at(sink) : static_cast<std::size_t>(own)];
      ++demand.total;
    }
    if (demand.total > 0) found.push_back(std::move(demand));
  }
  constexpr std::size_t kMostSinks = 64;
  keep_tightest(std::move(found), kMostSinks);
}

void Bounds::add_sets_of_ranks() {
  const auto ranks = at(problem_.ranks);
  std::vector<Demand> found;
  for (const std::vector<bool>& set : candidate_sets(problem_)) {
    Demand demand{std::vector<int>(ranks, 0), std::vector<int>(ranks, 0), 0};
    for (const Commodity& commodity : problem_.commodities) {
      const auto sink = static_cast<std::size_t>(std::find(commodity.sinks.begin(), commodity.sinks.end(), true) -
                                                 commodity.sinks.begin());
      if (!set[at(commodity.source)] || set[sink]) continue;
      ++demand.supply[at(commodity.source)];
      ++demand.demand[sink];
      ++demand.total;
    }
    if (demand.total > 0) found.push_back(std::move(demand));
  }
  constexpr std::size_t kMostSets = 24;
  keep_tightest(std::move(found), kMostSets);
}

void Bounds::keep_tightest(std::vector<Demand> candidates, std::size_t most) {
  const std::size_t arcs = 4 * problem_.hops.size() + problem_.capacities.size();
  candidates.resize(std::min(candidates.size(), std::max<std::size_t>(1, 4 * kMostArcs / arcs)));
  std::vector<std::pair<Ratio, std::size_t>> order;
  for (std::size_t i = 0; i < candidates.size(); ++i) order.emplace_back(rounds_per_piece(candidates[i]), i);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& one, const auto& other) { return one.first > other.first; });
  for (std::size_t i = 0; i < std::min(most, order.size()); ++i)
    demands_.push_back(std::move(candidates[order[i].second]));
}

// steps = 0: a network without time, as if steps were free.
Bounds::Network Bounds::network(const Demand& demand, int steps) const {
  const int layers = std::max(steps, 1);
  const int gadgets = static_cast<int>(problem_.capacities.size());
  const auto rank_node = [&](Rank rank, int time) { return steps == 0 ? rank : time * problem_.ranks + rank; };
  const int first_gadget = steps == 0 ? problem_.ranks : (steps + 1) * problem_.ranks;
  const auto gadget_in = [&](int gadget, int layer) { return first_gadget + 2 * (layer * gadgets + gadget); };
  Network net;
  net.source = first_gadget + 2 * layers * gadgets;
  net.sink = net.source + 1;
  net.nodes = net.sink + 1;
  const auto add = [&](int from, int to, std::int64_t capacity, int step) {
    net.arcs.push_back({from, to, capacity});
    net.steps.push_back(step);
  };
  for (Rank rank = 0; rank < problem_.ranks; ++rank) {
    if (demand.supply[at(rank)] > 0) add(net.source, rank_node(rank, 0), demand.supply[at(rank)], kPieces);
    if (demand.demand[at(rank)] > 0) add(rank_node(rank, steps), net.sink, demand.demand[at(rank)], kPieces);
    for (int time = 0; time < steps; ++time) add(rank_node(rank, time), rank_node(rank, time + 1), kUnbounded, kFree);
  }
  const auto under = capacities_by_hop(problem_);
  for (int layer = 0; layer < layers; ++layer) {
    std::set<std::pair<int, int>> joined;
    for (int c = 0; c < gadgets; ++c)
      add(gadget_in(c, layer), gadget_in(c, layer) + 1, problem_.capacities[at(c)].lanes, layer);
    for (std::size_t hop = 0; hop < problem_.hops.size(); ++hop) {
      int last = rank_node(problem_.hops[hop].src, layer);
      for (const int c : under[hop]) {
        if (joined.emplace(last, gadget_in(c, layer)).second) add(last, gadget_in(c, layer), kUnbounded, kFree);
        last = gadget_in(c, layer) + 1;
      }
      const int head = rank_node(problem_.hops[hop].dst, layer + 1);
      if (joined.emplace(last, head).second) add(last, head, kUnbounded, kFree);
    }
  }
  return net;
}

// Newton's method on cuts: raises the rounds to what a violated cut requires, until no cut is violated.
Ratio Bounds::rounds_per_piece(const Demand& demand) const {
  const Network net = network(demand, 0);
  Ratio rounds{0, 1};
  for (;;) {
    std::vector<topology::CapacityArc> arcs = net.arcs;
    for (std::size_t i = 0; i < arcs.size(); ++i)
      if (net.steps[i] == kPieces)
        arcs[i].capacity *= rounds.denominator;
      else if (net.steps[i] == kEveryStep)
        arcs[i].capacity *= rounds.numerator;
    const topology::FlowCut cut = topology::minimum_cut(net.nodes, arcs, net.source, net.sink);
    if (cut.value >= demand.total * rounds.denominator) return rounds;
    std::int64_t lanes = 0;
    std::int64_t cut_pieces = 0;
    for (std::size_t i = 0; i < arcs.size(); ++i) {
      if (!cut.source_side[at(arcs[i].src)] || cut.source_side[at(arcs[i].dst)]) continue;
      if (net.steps[i] == kPieces)
        cut_pieces += net.arcs[i].capacity;
      else
        lanes += net.arcs[i].capacity;
    }
    rounds = ratio(demand.total - cut_pieces, lanes);
  }
}

bool Bounds::refutes(int pieces, int steps, int rounds) {
  if (problem_.commodities.empty()) return false;
  if (!connected() || steps < least_steps_ || rounds < steps) return true;
  if (ratio(rounds, pieces) < least_rounds_per_piece_) return true;
  if (steps > kMostSteps) return false;
  std::vector<Cut>& pool = cuts_[steps];
  if (!networks_.contains(steps)) {
    std::size_t arcs = 0;
    for (const Demand& demand : demands_) {
      Network one = network(demand, steps);
      arcs += one.arcs.size();
      if (arcs > kMostArcs) break;
      networks_[steps].push_back(std::move(one));
    }
    for (const std::vector<bool>& counted : kinds_) {
      Cut& use = pool.emplace_back(Cut{{}, volume(counted)});
      for (int step = 0; step < steps; ++step) use.coefficients.push_back(most_chunks_a_round(counted, step, steps));
    }
  }
  int tried = 0;
  return !Distribution(steps, rounds).any(pool, pieces, [&](const std::vector<int>& chosen) {
    return ++tried > kMostTried || !violated(pieces, steps, chosen, pool);
  });
}

std::vector<RoundsRange> Bounds::ranges(int pieces, int steps, int rounds) {
  const int spare = rounds - steps;
  std::vector<RoundsRange> result(at(steps), {1 + spare, 1});
  const auto pool = cuts_.find(steps);
  bool complete = spare > 0 && pool != cuts_.end();
  if (complete) {
    Distribution all(steps, rounds);
    all.any(pool->second, pieces, [&](const std::vector<int>& chosen) {
      for (std::size_t s = 0; s < chosen.size(); ++s) {
        result[s].least = std::min(result[s].least, chosen[s]);
        result[s].most = std::max(result[s].most, chosen[s]);
      }
      return false;
    });
    complete = !all.gave_up();
  }
  if (!complete) result.assign(at(steps), {1, 1 + spare});
  return result;
}

// Adds to `pool` a cut that this distribution of rounds violates. False if there is none.
bool Bounds::violated(int pieces, int steps, const std::vector<int>& rounds, std::vector<Cut>& pool) {
  const std::vector<Network>& networks = networks_[steps];
  for (std::size_t d = 0; d < networks.size(); ++d) {
    const Network& net = networks[d];
    std::vector<topology::CapacityArc> arcs = net.arcs;
    for (std::size_t i = 0; i < arcs.size(); ++i)
      if (net.steps[i] == kPieces)
        arcs[i].capacity *= pieces;
      else if (net.steps[i] >= 0)
        arcs[i].capacity *= rounds[at(net.steps[i])];
    const topology::FlowCut cut = topology::minimum_cut(net.nodes, arcs, net.source, net.sink);
    if (cut.value >= std::int64_t{demands_[d].total} * pieces) continue;
    Cut inequality{std::vector<int>(at(steps), 0), demands_[d].total};
    for (std::size_t i = 0; i < arcs.size(); ++i) {
      if (!cut.source_side[at(arcs[i].src)] || cut.source_side[at(arcs[i].dst)]) continue;
      if (net.steps[i] == kPieces)
        inequality.demand -= static_cast<int>(net.arcs[i].capacity);
      else
        inequality.coefficients[at(net.steps[i])] += static_cast<int>(net.arcs[i].capacity);
    }
    pool.push_back(std::move(inequality));
    return true;
  }
  return false;
}

}  // namespace sccl::synth
