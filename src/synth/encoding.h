// The fast encoding of SCCL's synthesis problem, for a SAT solver.
//
// For each chunk (of each orbit, under a group of symmetries), with steps counted from 0:
//   present[rank][t]  the chunk is at the rank when step t begins; monotone in t (order-encoded arrival times)
//   sent[hop][s]      the hop carries the chunk in step s
//   sent[hop][s] -> present[src][s];  present[dst][t+1] -> present[dst][t] or one of sent[into dst][t]
// These are C1-C4 of the paper. Rounds are unary numbers. For each capacity and step, a totalizer counts up to the most
// rounds that the step could have; its outputs force rounds (C5). Another totalizer bounds the sum of rounds (C6).
// Variables exist only inside the windows given by the distances from the source and to the sinks, and inside the
// ranges of rounds that cuts allow.
#pragma once

#include <vector>

#include "synth/bounds.h"
#include "synth/cnf.h"
#include "synth/problem.h"
#include "synth/shortest_paths.h"
#include "synth/symmetry.h"

namespace sccl::synth {

// One question: is there a schedule, invariant under the group, of `steps` steps and at most `rounds` rounds? If the
// group has order 1, "unsat" means that no schedule exists; with a larger group, "unsat" means nothing for other
// schedules.
class Encoding {
 public:
  // Requires `rounds` >= `steps` >= 1, and every sink within `steps` hops of its source. `ranges` (one per step) must
  // hold whenever the steps have exactly `rounds` rounds together; every schedule can be extended to exactly that many.
  Encoding(const Problem& problem, const Action& action, int rounds, const std::vector<RoundsRange>& ranges);

  // Continues for at most `conflicts` more conflicts (0: no limit).
  Outcome solve(std::int64_t conflicts, const Limits& limits) { return cnf_.solve(conflicts, limits); }

  std::int64_t literals() const { return cnf_.literals(); }
  std::int64_t conflicts() const { return cnf_.conflicts(); }  // so far

  // After sat: the schedule, without useless sends.
  std::vector<TimedHop> solution() const;

  // Estimated literals of the formula, before it is built.
  static std::int64_t estimate(const Problem& problem, const Action& action, const std::vector<RoundsRange>& ranges);

 private:
  void add_chunk(const Action::Orbit& orbit);
  void add_rounds();
  void add_capacities();
  int& sent(std::size_t orbit, int hop, int step);
  int sent(std::size_t orbit, int hop, int step) const;
  std::vector<int> count(std::vector<int> literals, int most);
  std::vector<int> merge(const std::vector<int>& left, const std::vector<int>& right, int most);

  const Problem& problem_;
  const Action& action_;
  int steps_;
  int rounds_;
  std::vector<RoundsRange> ranges_;
  Cnf cnf_;
  std::vector<int> sent_;  // by orbit, hop, step; 0: outside the window
  // rounds_at_least_[s][j]: step s has at least ranges_[s].least + 1 + j rounds.
  std::vector<std::vector<int>> rounds_at_least_;
};

// Drops sends to ranks that already have the chunk or do not need it, so that each rank gets a chunk at most once.
std::vector<TimedHop> pruned(const Problem& problem, std::vector<TimedHop> sends);

}  // namespace sccl::synth
