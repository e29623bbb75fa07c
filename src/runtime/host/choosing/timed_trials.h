// The timed calls of a rank whose times are not known yet. A race of choices needs times that all ranks know at the
// same call, without waiting:
//
//   call          j            j+1                      k > j+1
//   every rank    is timed,    a call in which every    has left call j+1, so every rank has entered it
//                 writes when  rank needs something     and has written the record of call j before:
//                 it began     of every other           all records of j are read, and the race takes
//                 and ended    (AllReduce, ...)         last end - last begin
//
// Which calls are timed, and when their times can be read, follows from the sequence of calls alone. A program that
// makes only rooted calls has no such call j+1, and keeps the predicted choice.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "runtime/control/control_plane.h"
#include "runtime/host/choosing/choice_entry.h"

namespace sccl::runtime {

class TimedTrials {
 public:
  // `control` must outlive it.
  explicit TimedTrials(const ControlPlane& control) : control_(control) {}

  bool none_pending() const { return pending_.empty(); }
  // Whether the times of one more call can be kept until all ranks can read them.
  bool may_begin(Collective collective) const;
  // A call that serves the entry begins, and is timed. The entry stays until its trial is read or forgotten.
  void begin(ChoiceEntry& entry, std::uint64_t call);
  // The call in progress is complete on this rank.
  void end() {
    if (timed_) note_end();
  }

  // A collective in which every rank needs something of every other rank.
  void note_joining(std::uint64_t call) { last_joining_call_ = call; }
  // The next trial whose times every rank can read now that `call` begins; none: later.
  struct Measured {
    ChoiceEntry* entry = nullptr;
    std::uint64_t call = 0;
    std::uint64_t number = 0;
  };
  std::optional<Measured> next(std::uint64_t call);
  // From the first beginning to the last end, of all ranks.
  std::uint64_t duration_ns(const Measured& trial) const;

  template <typename Concerned>
  void forget_if(Concerned&& concerned) {
    std::erase_if(pending_, [&](const Measured& trial) { return concerned(*trial.entry); });
  }

 private:
  void note_end();

  const ControlPlane& control_;
  bool timed_ = false;  // whether the call in progress is timed
  std::uint64_t begin_ns_ = 0;
  std::uint64_t count_ = 0;
  std::deque<Measured> pending_;
  std::uint64_t last_joining_call_ = 0;
};

}  // namespace sccl::runtime
