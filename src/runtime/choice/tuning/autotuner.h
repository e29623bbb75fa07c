// Which of a few entrants serves the calls of one size class: a pure state machine that all ranks step alike.
//
// The first entrant is the one predicted to be best. First its slices are tuned, on the calls themselves (miad.h).
// Then in every kPeriod-th call another one runs, in turn, and in the middle between these calls the first one is
// timed. Whoever is far behind drops out early. When all have run often enough the race is settled for good: the
// least time decides, because a disturbance only ever adds to a call; the first entrant stays unless another one is
// clearly faster.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "runtime/choice/tuning/miad.h"

namespace sccl::runtime {

class Autotuner {
 public:
  // Another entrant runs in one of so many calls: at most 5%.
  static constexpr int kPeriod = 20;

  // `slices`, by entrant: what may be tuned; not tunable() where slices make no difference.
  explicit Autotuner(const std::vector<SliceRange>& slices);

  enum class Timing : std::uint8_t { possible, impossible };
  struct Turn {
    int entrant = 0;
    std::size_t slice = 0;  // 0: the usual one
    bool timed = false;
  };
  // Of the next call. Where timing is impossible (inside a capture, or too many times are still to be exchanged) the
  // best so far serves.
  Turn next(Timing timing);

  // What the oldest timed turn without an answer took, in nanoseconds.
  void measured(std::uint64_t ns);

  bool settled() const { return settled_; }
  Miad::Phase phase() const { return entrants_.front().miad.phase(); }

  struct Standing {
    int entrant = -1;  // none
    std::size_t slice = 0;
    std::uint64_t ns = 0;  // 0: not measured
  };
  Standing winner() const;
  Standing second() const;
  Turn last_answered() const { return last_answered_; }

 private:
  struct Entrant {
    Miad miad;
    bool sliced = false;
    bool finished = false;
    int measured = 0;
    std::uint64_t least_ns = 0;
  };
  Standing standing(int entrant) const;
  Turn timed_turn(int entrant);
  int next_challenger();
  void review();
  void settle();

  std::vector<Entrant> entrants_;
  std::deque<Turn> unanswered_;
  Turn last_answered_;
  std::uint64_t calls_ = 0;
  int challenger_ = 0;
  int winner_ = 0;
  bool settled_ = false;
};

}  // namespace sccl::runtime
