// The search for one schedule of a collective that only copies: bounds first, then the fast encoding. Attempts go from
// more to fewer symmetries, with the smallest number of steps first and with growing effort.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "synth/bounds.h"
#include "synth/encoding.h"

namespace sccl::synth {

// Direction of the hops. A reducing collective is the inverse of a copying one on the reversed topology (SCCL 3.5).
enum class Orientation : std::uint8_t { forward, reversed };

// The work that a search may take before it answers "unknown", in conflicts of a small formula: one of a large formula
// counts several times, and so does building it. Unlike time, the work is the same on every machine, so ranks that ask
// the same question get the same answer.
struct Effort {
  std::int64_t conflicts = 0;    // 0: until the limits are reached
  std::int64_t* left = nullptr;  // budget that several questions share; each subtracts its work

  // Then only what is known is answered: even bounds take time.
  bool spent() const { return left != nullptr && *left < 1; }
};

struct Found {
  Outcome outcome = Outcome::unknown;
  std::vector<TimedHop> sends;  // when sat
  std::string reason;           // otherwise: what the outcome rests on
};

class Search {
 public:
  Search(const topology::Topology& topology, Collective collective, Rank root, Orientation orientation);
  ~Search();

  Bounds& bounds() { return bounds_; }
  const std::vector<Hop>& hops() const { return unit_.hops; }
  int chunks_per_piece() const { return chunks_per_piece_; }

  // Schedules that need no search: along shortest paths, and by flooding after flood(pieces). The topology must be
  // connected, and `pieces` must be searchable.
  const std::vector<Routed>& easy(int pieces);
  void flood(int pieces);
  bool searchable(int pieces) const;

  // Searches a schedule of at most `steps` steps and `rounds` rounds, fewer steps first. Cutting a step of several
  // rounds in two turns a schedule into one of more steps; so "unsat" holds for every smaller number of steps, too.
  // Remembers proofs and progress: asking again continues.
  Found find(int pieces, int steps, int rounds, Effort effort, const Limits& limits);

 private:
  struct Attempt;  // one formula
  struct Asked;    // all formulas of one question
  Problem problem(int pieces) const;
  bool is_refuted(int pieces, int steps, int rounds) const;
  std::unique_ptr<Asked> ask(int pieces, int steps, int rounds);
  Found go_on(Asked& asked, Effort effort, const Limits& limits);
  Outcome attempt_once(Asked& asked, Attempt& attempt, std::int64_t conflicts, const Limits& limits);

  topology::Topology topology_;
  Collective collective_;
  Rank root_;
  Orientation orientation_;
  int chunks_per_piece_;
  Problem unit_;  // with one piece
  Bounds bounds_;
  std::vector<Group> groups_;
  std::map<int, std::vector<Routed>> easy_;                   // by pieces
  std::map<std::vector<int>, std::unique_ptr<Asked>> asked_;  // by pieces, steps, rounds
};

}  // namespace sccl::synth
