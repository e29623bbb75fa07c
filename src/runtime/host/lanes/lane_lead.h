// How far the lanes of a rank may be ahead of one another, if they move together.
//
// A lane that is ahead goes only together with the slowest lane. Alone, it would only fill slots, its peer would do the
// same, and each lane would move its data separately. Between hosts a message, or the news that a slot is free, may be
// on its way for long. There, whenever nothing has moved for some turns, every lane that can executes one operation:
// what it sends fills the link meanwhile.
//
// The limit causes no deadlock: every lane waits, in the end, only for operations of its own slice or of earlier slices
// (lanes and shared slots go slice by slice: shared_slots.h), and no rank holds back a lane at the earliest slice of
// all.
#pragma once

#include <algorithm>
#include <cstdint>

namespace sccl::runtime {

class LaneLead {
 public:
  // Turns without an operation, after which lanes of ranks on several hosts go alone. A rank sleeps later than that, so
  // that it sends what it can before.
  static constexpr int kPatientTurns = 128;

  LaneLead() = default;
  explicit LaneLead(bool between_hosts) : between_hosts_(between_hosts) {}

  void note_turn(bool moved) { idle_turns_ = moved ? 0 : std::min(idle_turns_ + 1, kPatientTurns); }
  bool lanes_go_alone() const { return between_hosts_ && idle_turns_ == kPatientTurns; }

  // A lane at `slice` may go whatever the slowest lane does.
  bool may_go(std::uint64_t slice, std::uint64_t slowest) const {
    return lanes_go_alone() || slice < slowest + kMostLead;
  }
  // A lane at `slice` may go together with the slowest lane.
  bool may_go_along(std::uint64_t slice, std::uint64_t slowest) const {
    return !lanes_go_alone() && slice == slowest + kMostLead;
  }

 private:
  static constexpr std::uint64_t kMostLead = 1;  // slices

  bool between_hosts_ = false;
  int idle_turns_ = 0;
};

}  // namespace sccl::runtime
