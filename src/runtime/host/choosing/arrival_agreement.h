// Over hosts: from which call on which calls are reduced by the ranks that are there. Rank 0 decides; its decisions
// travel as its state does (control/hosts), some time after they are made, so they must not hold at once.
//
// All ranks know in advance the number from which the next decision holds: the first call of at least that number that
// no rank ends without all others is a *point*. Each decision says how many calls after its point the next point is.
// Rank 0 decides about halfway between two points. A rank that comes to a point and has not got the decision waits for
// it; that is rare, as points are about 100 ms apart.
//
//   rank 0                                       any rank, at the point
//   leaves the last point's call
//   word = number, calls to the next point,      word has the number it waits for (acquire): takes forms and the next
//          forms (release); rings the agent      point from it
//
// The word may be replaced: rank 0 has data of every rank of the last point's call, so every rank has taken that
// point's decision. Nobody waits for ever: rank 0 decides at the latest when it comes to the point itself.
// tests/models/arrival_agreement.pml proves this.
#pragma once

#include <atomic>
#include <bitset>
#include <cstdint>

#include "runtime/control/state/shared_state.h"

namespace sccl::runtime {

class ArrivalAgreement {
 public:
  using Forms = std::bitset<ArrivalWords::kGroups>;  // true: by the ranks that are there

  // Of rank 0; must outlive this object.
  explicit ArrivalAgreement(std::atomic<std::uint64_t>& word) : word_(word) {}

  Forms forms() const { return forms_; }
  // A call of that number is a point, if no rank ends it without all others.
  bool is_due(std::uint64_t call) const { return call >= next_point_; }
  // The point is this call. False: its decision is not there yet.
  bool settle(std::uint64_t call);

  // Rank 0. It is time for the next decision, or the call is the point.
  bool may_decide(std::uint64_t call) const { return decided_ == settled_ && call + interval_ / 2 >= next_point_; }
  // In a call for which the last decision holds already.
  void decide(Forms forms, std::uint64_t call, std::uint64_t now_ns);

 private:
  static constexpr std::uint64_t kLeastInterval = 128;

  std::atomic<std::uint64_t>& word_;
  Forms forms_;
  std::uint64_t settled_ = 0;  // decisions that hold
  std::uint64_t next_point_ = kLeastInterval;
  std::uint64_t interval_ = kLeastInterval;
  // Of rank 0.
  std::uint64_t decided_ = 0;
  std::uint64_t decided_at_call_ = 0;
  std::uint64_t decided_at_ns_ = 0;
};

}  // namespace sccl::runtime
