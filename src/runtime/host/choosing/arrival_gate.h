// Which calls are reduced by the ranks that are there, where that is decided while the program runs
// (SCCL_ARRIVAL=auto).
//
// Calls are decided on in groups: a collective and a range of sizes. Rank 0 decides, by the spread of arrivals that was
// measured (control/arrivals.h), as a multiple of the time of one message of that size: the paper's maximum imbalance
// factor. It stores a decision when it is about to enter a call whose end needs data of every rank, and the decision
// holds for later calls. A rank that has ended that call has received data which rank 0 sent after the store (release,
// acquire), so every rank sees the decision when it begins a later call. The word keeps the form of earlier calls, too,
// for a rank that has not begun that call: rank 0 decides again only in a later such call.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/call/signature.h"
#include "runtime/membership/membership.h"

namespace sccl::runtime {

class ArrivalGate {
 public:
  // From so many messages' times on ranks are far enough apart; below the other number they have come together again.
  struct Threshold {
    double opens = 0;
    double closes = 0;
  };

  // `membership` must outlive this object.
  explicit ArrivalGate(const Membership& membership);

  // Whether the call of that number is reduced by the ranks that are there. The same at all ranks.
  bool is_open(Collective collective, std::size_t bytes, std::uint64_t sequence) const;
  // A call may be served otherwise than the same call before: true from when a decision is seen until a call has begun
  // for which it holds.
  bool has_news() const { return words_->latest.load(std::memory_order_acquire) != settled_; }  // pairs with decide()
  // A call of that number begins.
  void note_begin(std::uint64_t sequence) {
    const std::uint64_t latest = words_->latest.load(std::memory_order_relaxed);
    if (sequence > latest) settled_ = latest;
  }
  // Rank 0 is about to enter this call, whose arrivals are measured. Does nothing at other ranks.
  void decide(const CallSignature& call);

 private:
  static constexpr std::size_t kGroups = ArrivalWords::kGroups;
  // A look at the sums takes as long as a few short calls.
  static constexpr std::uint64_t kMeasuredBetweenLooks = 64;
  // Measured calls of a group, and the sum of their imbalance factors.
  struct Measured {
    double calls = 0;
    double factors = 0;
  };

  std::array<Measured, kGroups> measured() const;
  void decide(std::size_t group, const Measured& now, std::uint64_t sequence);
  Threshold threshold() const;

  const Membership& membership_;
  ArrivalWords* words_;  // in rank 0's memory
  std::uint64_t settled_ = 0;
  // Of rank 0.
  std::array<Measured, kGroups> known_{};  // at the last decision
  std::uint64_t measured_since_look_ = kMeasuredBetweenLooks;
};

}  // namespace sccl::runtime
