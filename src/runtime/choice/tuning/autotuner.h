// Chooses the entrant that serves the calls of one size class: a pure state machine. All ranks take the same steps.
//
// The first entrant is predicted to be the fastest. First its slices are tuned, on real calls (miad.h). Then every
// kPeriod-th call runs one of the other entrants, in turn, and half a period later a call of the first entrant is
// timed. An entrant that is much slower drops out early. When all entrants have run often enough, the choice is final.
// The least time of each entrant counts, because a disturbance only makes a call slower. The first entrant stays unless
// another entrant is clearly faster.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "runtime/choice/tuning/miad.h"

namespace sccl::runtime {

class Autotuner {
 public:
  // One call in kPeriod runs another entrant than the first: at most 5% of calls.
  static constexpr int kPeriod = 20;

  // `slices`: for each entrant the range to tune; not tunable() if the entrant has no choice of slices.
  explicit Autotuner(const std::vector<SliceRange>& slices);

  enum class Timing : std::uint8_t { possible, impossible };
  struct Turn {
    int entrant = 0;
    std::size_t slice = 0;  // 0: the default slice
    bool timed = false;
  };
  // The turn of the next call. If timing is impossible (inside a capture, or too many times are not exchanged yet),
  // winner() serves the call.
  Turn next(Timing timing);

  // Reports the time of the oldest timed turn that has no time yet, in nanoseconds.
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
