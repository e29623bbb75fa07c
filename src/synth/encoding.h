// The fast encoding of SCCL's synthesis problem, for a SAT solver.
//
// For each chunk (of each orbit, under a group of symmetries), with steps counted from 0:
//   present[rank][t]  the chunk is at the rank when step t begins; monotone in t (order-encoded arrival times)
//   sent[hop][s]      the hop carries the chunk in step s
//   sent[hop][s] -> present[src][s];  present[dst][t+1] -> present[dst][t] or one of sent[into dst][t]
// which is C1-C4 of the paper. Rounds are unary numbers; a totalizer for each capacity and step counts up to the most
// rounds the step could have, and its outputs force rounds (C5); another totalizer bounds their sum (C6). Variables
// exist only inside the windows that distances from source and to sinks leave open, and in the ranges of rounds that
// cuts leave open.
#pragma once

#include <vector>

#include "synth/bounds.h"
#include "synth/cnf.h"
#include "synth/problem.h"
#include "synth/shortest_paths.h"
#include "synth/symmetry.h"

namespace sccl::synth {

// One question: is there an invariant schedule of `steps` steps and at most `rounds` rounds? No for a group of order 1
// means no schedule; for a larger group it means nothing.
class Encoding {
 public:
  // `rounds` >= `steps` >= 1, and every sink within `steps` hops of its source. `ranges`, one for each step, are known
  // to hold whenever the steps have exactly `rounds` rounds together; any schedule can be given that many.
  Encoding(const Problem& problem, const Action& action, int rounds, const std::vector<RoundsRange>& ranges);

  // Goes on for at most `conflicts` more conflicts (0: no limit).
  Outcome solve(std::int64_t conflicts, const Limits& limits) { return cnf_.solve(conflicts, limits); }

  std::int64_t literals() const { return cnf_.literals(); }

  // After sat: without sends that turn out useless.
  std::vector<TimedHop> solution() const;

  // What the formula of this size takes, before it is built; in literals.
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

// Drops sends to ranks that have the chunk already or do not need it, so that each rank gets a chunk at most once.
std::vector<TimedHop> pruned(const Problem& problem, std::vector<TimedHop> sends);

}  // namespace sccl::synth
