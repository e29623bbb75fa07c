#include "synth/search.h"

#include <algorithm>
#include <new>

#include "base/error.h"
#include "synth/flooding.h"

namespace sccl::synth {
namespace {

constexpr std::int64_t kMostLiterals = 40'000'000;  // of one formula: about half a gigabyte
constexpr std::int64_t kKeptLiterals = 4'000'000;   // of a formula that is kept until its next turn
constexpr int kMostChunks = 20000;
constexpr int kMostStepsTried = 24;
constexpr std::size_t kMostActions = 5;
constexpr std::int64_t kCheapLiterals = 100'000;     // a conflict takes longer in a larger formula
constexpr std::int64_t kLiteralsAConflict = 20'000;  // that are built in the time of one

constexpr const char* kNoEffortLeft = "the effort for all questions together was used up";

// Building a formula takes time, too: the literals that can be built in the remaining time.
std::int64_t literals_in(const Limits& limits) {
  constexpr std::int64_t kLiteralsAMs = 3000;
  constexpr int kLongMs = 100'000;
  return kLiteralsAMs * limits.deadline.remaining_ms(kLongMs);
}

// Turns grow, so that most of the work is in the last one.
std::int64_t conflicts_of_turn(int turn) {
  constexpr std::int64_t kFirst = 5000;
  constexpr int kDoublingsATurn = 2;
  return kFirst << std::min(kDoublingsATurn * turn, 40);
}

}  // namespace

struct Search::Attempt {
  const Action* action = nullptr;
  int steps = 0;
  std::vector<RoundsRange> ranges;
  std::int64_t share = 1;  // divisor: the attempt gets turn / share conflicts
  int first_turn = 0;
  std::int64_t literals = 0;   // estimate
  std::int64_t conflicts = 0;  // so far
  std::unique_ptr<Encoding> encoding;
  bool closed = false;  // refuted, or too large to try
  int builds = 0;       // of the encoding, so far
};

struct Search::Asked {
  Problem problem;
  int steps = 0;
  int rounds = 0;
  std::vector<Action> actions;
  std::vector<Attempt> attempts;  // in the order in which they are tried
  int turn = 0;
  bool refuted = false;
  std::vector<TimedHop> found;
};

Search::Search(const topology::Topology& topology, Collective collective, Rank root, Orientation orientation)
    : topology_(topology),
      collective_(collective),
      root_(root),
      orientation_(orientation),
      chunks_per_piece_(synth::chunks_per_piece(collective, topology.ranks)),
      unit_(problem(1)),
      bounds_(unit_),
      groups_(groups(unit_)) {}

Search::~Search() = default;

Problem Search::problem(int pieces) const {
  Problem forward = make_problem(topology_, collective_, root_, pieces * chunks_per_piece_);
  return orientation_ == Orientation::forward ? forward : reversed(std::move(forward));
}

Found Search::find(int pieces, int steps, int rounds, Effort effort, const Limits& limits) {
  if (pieces < 1) fail(ErrorCode::invalid_argument, "{} chunks: give at least 1", pieces);
  if (steps < 0 || rounds < 0)
    fail(ErrorCode::invalid_argument, "{} steps and {} rounds: neither can be negative", steps, rounds);
  if (unit_.commodities.empty()) return {Outcome::sat, {}, ""};
  if (!bounds_.connected())
    return {Outcome::unsat, {}, "some rank cannot be reached over the links: the topology is not connected"};
  if (steps < bounds_.least_steps())
    return {Outcome::unsat,
            {},
            fmt::format("some chunk has {} hops to go, more than {} steps", bounds_.least_steps(), steps)};
  if (rounds < bounds_.least_steps())
    return {Outcome::unsat,
            {},
            fmt::format("{} steps are needed and have a round each, more than {}", bounds_.least_steps(), rounds)};
  steps = std::min(steps, rounds);
  if (!effort.spent() && bounds_.refutes(pieces, steps, rounds))
    return {Outcome::unsat, {}, "a cut of the time-expanded network"};
  if (!searchable(pieces))
    return {Outcome::unknown, {}, fmt::format("more than {} chunks are not searched", kMostChunks)};
  for (const Routed& routed : easy(pieces))
    if (routed.steps <= steps && routed.rounds <= rounds) return {Outcome::sat, routed.sends, ""};
  auto& asked = asked_[{pieces, steps, rounds}];
  if (!asked && effort.spent()) return {Outcome::unknown, {}, kNoEffortLeft};
  if (!asked) asked = ask(pieces, steps, rounds);
  return go_on(*asked, effort, limits);
}

bool Search::searchable(int pieces) const {
  return std::int64_t{pieces} * static_cast<std::int64_t>(unit_.commodities.size()) <= kMostChunks;
}

const std::vector<Routed>& Search::easy(int pieces) {
  std::vector<Routed>& known = easy_[pieces];
  if (known.empty()) known.push_back(shortest_paths(problem(pieces)));
  return known;
}

void Search::flood(int pieces) {
  if (easy(pieces).size() > 1) return;
  if (std::optional<Routed> routed = flooding(problem(pieces))) easy_[pieces].push_back(std::move(*routed));
}

// By a search for so many or more steps.
bool Search::is_refuted(int pieces, int steps, int rounds) const {
  return std::ranges::any_of(asked_, [&](const auto& one) {
    const std::vector<int>& size = one.first;
    return size[0] == pieces && size[1] >= steps && size[2] == rounds && one.second && one.second->refuted;
  });
}

std::unique_ptr<Search::Asked> Search::ask(int pieces, int steps, int rounds) {
  auto asked = std::make_unique<Asked>();
  asked->problem = problem(pieces);
  asked->steps = steps;
  asked->rounds = rounds;
  asked->actions = actions(asked->problem, groups_);
  while (asked->actions.size() > kMostActions) asked->actions.erase(asked->actions.end() - 2);
  const int first = std::max(bounds_.least_steps(), 1);
  int turn = 0;
  for (int tried = first; tried <= std::min(steps, first + kMostStepsTried); ++tried) {
    if (tried < steps && (is_refuted(pieces, tried, rounds) || bounds_.refutes(pieces, tried, rounds))) continue;
    std::vector<RoundsRange> ranges = bounds_.ranges(pieces, tried, rounds);
    std::int64_t share = 1;
    for (const Action& action : asked->actions)
      asked->attempts.push_back({&action, tried, ranges, share++, turn,
                                 Encoding::estimate(asked->problem, action, ranges), 0, nullptr, false});
    ++turn;
  }
  return asked;
}

Found Search::go_on(Asked& asked, Effort effort, const Limits& limits) {
  const std::string proof = "the solver refuted the formula without symmetries";
  if (asked.refuted) return {Outcome::unsat, {}, proof};
  // Learnt clauses are kept only while the question is being answered: questions are many, and formulas large.
  struct Forget {
    Asked& asked;
    ~Forget() {
      for (Attempt& attempt : asked.attempts) attempt.encoding.reset();
    }
  } forget{asked};
  while (asked.found.empty()) {
    const std::int64_t conflicts = conflicts_of_turn(asked.turn);
    if (effort.conflicts > 0 && conflicts > effort.conflicts)
      return {Outcome::unknown, {}, "the search gave up within its effort"};
    bool open = false;
    bool tried = false;
    for (Attempt& attempt : asked.attempts) {
      if (attempt.closed) continue;
      open = true;
      if (attempt.first_turn > asked.turn) {
        tried = true;  // it will be tried in a later turn
        continue;
      }
      if (limits.reached()) return {Outcome::unknown, {}, "the time was up"};
      if (!attempt.encoding && attempt.literals > literals_in(limits)) continue;
      tried = true;
      const std::int64_t weight = 1 + attempt.literals / kCheapLiterals;
      std::int64_t turn = conflicts / attempt.share;
      if (effort.left != nullptr) turn = std::min(turn, *effort.left / weight);
      if (turn < 1) return {Outcome::unknown, {}, kNoEffortLeft};
      const std::int64_t before = attempt.conflicts;
      const int built = attempt.builds;
      const Outcome outcome = attempt_once(asked, attempt, turn, limits);
      if (effort.left != nullptr)
        *effort.left -=
            (attempt.conflicts - before) * weight + (attempt.builds - built) * attempt.literals / kLiteralsAConflict;
      if (outcome == Outcome::sat) break;
      if (asked.refuted) return {Outcome::unsat, {}, proof};
    }
    if (asked.found.empty() && !open) return {Outcome::unknown, {}, "the formulas that are left are too large"};
    if (asked.found.empty() && !tried) return {Outcome::unknown, {}, "too little time for the formulas that are left"};
    ++asked.turn;
  }
  return {Outcome::sat, asked.found, ""};
}

// Running out of memory closes the attempt, as if the formula were known to be too large.
Outcome Search::attempt_once(Asked& asked, Attempt& attempt, std::int64_t conflicts, const Limits& limits) {
  Outcome outcome = Outcome::unknown;
  try {
    if (!attempt.encoding) {
      const std::int64_t most =
          limits.most_literals > 0 ? std::min(limits.most_literals, kMostLiterals) : kMostLiterals;
      if (attempt.literals > most) throw std::bad_alloc();
      ++attempt.builds;
      attempt.encoding = std::make_unique<Encoding>(asked.problem, *attempt.action, asked.rounds, attempt.ranges);
    }
    const std::int64_t before = attempt.encoding->conflicts();
    outcome = attempt.encoding->solve(conflicts, limits);
    attempt.conflicts += attempt.encoding->conflicts() - before;
    if (outcome == Outcome::sat) asked.found = attempt.encoding->solution();
  } catch (const std::bad_alloc&) {
    attempt.encoding.reset();
    attempt.closed = true;
    return Outcome::unknown;
  }
  if (outcome != Outcome::unsat) {
    if (attempt.encoding->literals() > kKeptLiterals) attempt.encoding.reset();
    return outcome;
  }
  attempt.closed = true;
  attempt.encoding.reset();
  if (attempt.action->group.order() > 1) return outcome;
  for (Attempt& other : asked.attempts) other.closed = other.closed || other.steps <= attempt.steps;
  asked.refuted = attempt.steps == asked.steps;
  return outcome;
}

}  // namespace sccl::synth
