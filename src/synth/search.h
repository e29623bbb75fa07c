// The search for one schedule of a collective that combines nothing: bounds first, then the fast encoding with fewer
// and fewer symmetries, smallest number of steps first, with growing effort.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "synth/bounds.h"
#include "synth/encoding.h"

namespace sccl::synth {

// Which way the hops lead; a combining collective is the inverse of another one on the reversed topology (SCCL 3.5).
enum class Orientation : std::uint8_t { forward, reversed };

// How much work a search may take before it answers "unknown", in conflicts of its largest formula: unlike time, the
// same on every machine, so that ranks which ask alike are answered alike.
struct Effort {
  std::int64_t conflicts = 0;    // 0: until the limits are reached
  std::int64_t* left = nullptr;  // what several questions may take together; each takes from it what it used
};

struct Found {
  Outcome outcome = Outcome::unknown;
  std::vector<TimedHop> sends;  // when sat
  std::string reason;           // when not: what it rests on
};

class Search {
 public:
  Search(const topology::Topology& topology, Collective collective, Rank root, Orientation orientation);
  ~Search();

  Bounds& bounds() { return bounds_; }
  const std::vector<Hop>& hops() const { return unit_.hops; }
  int chunks_per_piece() const { return chunks_per_piece_; }

  // What needs no search: along shortest paths, and by flooding once that was asked for. The topology must be
  // connected, and the pieces no more than are searched.
  const std::vector<Routed>& easy(int pieces);
  void flood(int pieces);
  bool searchable(int pieces) const;

  // At most `steps` steps and `rounds` rounds. Fewer steps are tried first: cutting a step of several rounds in two
  // makes a schedule of more steps from any such schedule, so "unsat" speaks of every smaller number of steps, too.
  // Remembers what it proved and how far it got: asking again goes on.
  Found find(int pieces, int steps, int rounds, Effort effort, const Limits& limits);

 private:
  struct Attempt;  // one formula
  struct Asked;    // all formulas of one question
  Problem problem(int pieces) const;
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
