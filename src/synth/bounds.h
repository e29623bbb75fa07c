// Lower bounds on steps and rounds of every schedule, proved by cuts before any solver runs.
//
// Steps: the bound is the longest distance from a chunk's source to one of its sinks.
// Rounds: a schedule of S steps is a flow in the time-expanded network (a copy of each rank before each step, hops
// between consecutive copies, waiting is free). So each cut of this network is an inequality
// sum of a[s] * rounds[s] >= pieces * demand that every schedule meets. A demand is one of
//   - one sink that wants chunks of all ranks (copies of a chunk can serve several sinks at once, so each sink is
//     considered alone: the network-coding bound), or
//   - all chunks that must leave a set of ranks (chunks with one sink each).
// Further inequalities compare the hops that all chunks need with the capacity of the hops usable in a step. They count
// hops of all kinds, or only of the scarcer kinds.
//
// Maximum flow finds cuts that the distribution of rounds tried last violates. Rounds are whole numbers, so a small
// search decides whether any distribution of R rounds over S steps meets all cuts. All arithmetic is exact.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "synth/problem.h"
#include "topology/graph/max_flow.h"

namespace sccl::synth {

// A fraction in lowest terms, with a positive denominator.
struct Ratio {
  std::int64_t numerator = 0;
  std::int64_t denominator = 1;
  std::strong_ordering operator<=>(const Ratio& other) const {
    return numerator * other.denominator <=> other.numerator * denominator;
  }
  bool operator==(const Ratio&) const = default;
};

struct RoundsRange {
  int least = 1;
  int most = 1;
};

Ratio ratio(std::int64_t numerator, std::int64_t denominator);

// Bounds for a problem, and for problems that differ from it only in the number of pieces of each commodity.
class Bounds {
 public:
  explicit Bounds(const Problem& problem);

  bool connected() const { return least_steps_ < kUnreachable; }
  int least_steps() const { return least_steps_; }
  // Bound on rounds divided by pieces of a commodity, for any number of steps.
  Ratio least_rounds_per_piece() const { return least_rounds_per_piece_; }

  // True when no schedule moves `pieces` chunks of each commodity in `steps` steps and `rounds` rounds.
  bool refutes(int pieces, int steps, int rounds);

  // By step: the range of rounds that the cuts found so far allow when all steps together have `rounds` rounds.
  std::vector<RoundsRange> ranges(int pieces, int steps, int rounds);

 private:
  // A single-commodity flow that every schedule contains: supplies and demands by rank, in pieces.
  struct Demand {
    std::vector<int> supply;
    std::vector<int> demand;
    int total = 0;
  };
  // coefficients * rounds >= pieces * demand.
  struct Cut {
    std::vector<int> coefficients;  // by step
    int demand = 0;
  };
  struct Network {
    int nodes = 0;
    int source = 0;
    int sink = 0;
    std::vector<topology::CapacityArc>
        arcs;  // capacity: lanes where step >= 0, else pieces (supply and demand) or unbounded
    // by arc: the step whose rounds multiply its capacity; -1: pieces multiply it; -2: nothing does
    std::vector<int> steps;
  };

  void add_demands();
  void add_kinds();
  int volume(const std::vector<bool>& counted) const;
  int most_chunks_a_round(const std::vector<bool>& counted, int step, int steps) const;
  void add_sets_of_ranks();
  void keep_tightest(std::vector<Demand> candidates, std::size_t most);
  Network network(const Demand& demand, int steps) const;
  Ratio rounds_per_piece(const Demand& demand) const;
  bool violated(int pieces, int steps, const std::vector<int>& rounds, std::vector<Cut>& pool);

  const Problem problem_;
  int least_steps_ = 0;
  Ratio least_rounds_per_piece_;
  std::vector<Demand> demands_;
  std::vector<std::vector<bool>> kinds_;  // sets of hops (by hop: whether it is in the set) whose use is counted
  std::map<int, std::vector<Network>> networks_;  // by number of steps; one network for each demand
  std::map<int, std::vector<Cut>> cuts_;
};

}  // namespace sccl::synth
