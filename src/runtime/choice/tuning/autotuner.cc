#include "runtime/choice/tuning/autotuner.h"

#include <algorithm>

namespace sccl::runtime {
namespace {

constexpr int kRuns = 6;  // of each entrant
constexpr int kRunsToJudge = 3;
// After kRunsToJudge runs, an entrant that takes 1.5 times as long as the first drops out.
constexpr std::uint64_t kHopelessPercent = 150;
// To replace the first entrant, another entrant must take less than this percentage of the first entrant's time.
constexpr std::uint64_t kClearPercent = 97;

}  // namespace

Autotuner::Autotuner(const std::vector<SliceRange>& slices) {
  for (const SliceRange& range : slices) entrants_.push_back({Miad(range), range.tunable(), false, 0, 0});
  settled_ = entrants_.size() == 1 && entrants_.front().miad.steady();
}

Autotuner::Turn Autotuner::timed_turn(int entrant) {
  Entrant& one = entrants_[static_cast<std::size_t>(entrant)];
  Turn turn{entrant, 0, true};
  if (one.sliced) turn.slice = one.miad.steady() ? one.miad.best_slice() : one.miad.propose();
  unanswered_.push_back(turn);
  return turn;
}

int Autotuner::next_challenger() {
  const int count = static_cast<int>(entrants_.size());
  for (int i = 0; i < count; ++i) {
    challenger_ = (challenger_ + 1) % count;
    if (challenger_ != 0 && !entrants_[static_cast<std::size_t>(challenger_)].finished) return challenger_;
  }
  return 0;
}

Autotuner::Turn Autotuner::next(Timing timing) {
  ++calls_;
  if (!settled_ && timing == Timing::possible) {
    if (!entrants_.front().miad.steady()) return timed_turn(0);
    if (calls_ % kPeriod == 0) return timed_turn(next_challenger());
    if (calls_ % kPeriod == kPeriod / 2) return timed_turn(0);
  }
  const Standing serving = winner();
  return {serving.entrant, serving.slice, false};
}

void Autotuner::measured(std::uint64_t ns) {
  if (unanswered_.empty()) return;
  last_answered_ = unanswered_.front();
  unanswered_.pop_front();
  if (settled_) return;
  Entrant& one = entrants_[static_cast<std::size_t>(last_answered_.entrant)];
  ++one.measured;
  if (one.least_ns == 0 || ns < one.least_ns) one.least_ns = ns;
  if (one.sliced && !one.miad.steady()) one.miad.measured(ns);
  review();
}

void Autotuner::review() {
  const Entrant& first = entrants_.front();
  for (std::size_t i = 1; i < entrants_.size(); ++i) {
    Entrant& one = entrants_[i];
    const bool grown = one.miad.phase() != Miad::Phase::increase;  // the first slices are small, hence slow
    const bool hopeless = grown && one.measured >= kRunsToJudge && first.least_ns != 0 &&
                          one.least_ns * 100 > first.least_ns * kHopelessPercent;
    if (hopeless || (one.measured >= kRuns && one.miad.steady())) one.finished = true;
  }
  const bool others =
      std::all_of(entrants_.begin() + 1, entrants_.end(), [](const Entrant& one) { return one.finished; });
  if (others && first.miad.steady() && (entrants_.size() == 1 || first.measured >= kRuns)) settle();
}

void Autotuner::settle() {
  settled_ = true;
  std::uint64_t least = entrants_.front().least_ns * kClearPercent / 100;
  for (std::size_t i = 1; i < entrants_.size(); ++i) {
    if (entrants_[i].least_ns == 0 || entrants_[i].least_ns >= least) continue;
    least = entrants_[i].least_ns;
    winner_ = static_cast<int>(i);
  }
}

Autotuner::Standing Autotuner::standing(int entrant) const {
  const Entrant& one = entrants_[static_cast<std::size_t>(entrant)];
  return {entrant, one.sliced ? one.miad.best_slice() : 0, one.least_ns};
}

Autotuner::Standing Autotuner::winner() const { return standing(winner_); }

Autotuner::Standing Autotuner::second() const {
  Standing found;
  for (int i = 0; i < static_cast<int>(entrants_.size()); ++i) {
    const Standing one = standing(i);
    if (i != winner_ && one.ns != 0 && (found.entrant < 0 || one.ns < found.ns)) found = one;
  }
  return found;
}

}  // namespace sccl::runtime
