// The calls that the ranks are in. Every rank publishes the calls that it enters and completes and, while it waits, a
// wait record for each lane. Peers read the calls to find mismatches; `sccl status` shows calls and wait records.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/call/signature.h"
#include "runtime/control/members.h"

namespace sccl::runtime {

class Calls {
 public:
  explicit Calls(const Members& members) : members_(members) {}

  // For this rank's own calls, numbered from 1.
  void enter(const CallSignature& call) {
    SharedState& own = members_.own();
    own.records[call.sequence % SharedState::kRecords].publish(call);
    own.activity.entered.store(call.sequence, std::memory_order_relaxed);
  }
  void complete(std::uint64_t sequence) {
    members_.own().activity.completed.store(sequence, std::memory_order_release);  // pairs with completed()
  }
  void enter_transfers() { members_.own().activity.transfers.store(1, std::memory_order_relaxed); }
  void complete_transfers() { members_.own().activity.transfers.store(0, std::memory_order_relaxed); }

  // This rank waits. `waits` replaces the earlier wait records. The waiting time counts from the first note_waits().
  void note_waits(std::span<const LaneWait> waits);
  void note_motion() {
    if (members_.own().activity.waits_since_us.load(std::memory_order_relaxed) != 0) forget_waits();
  }

  // For any rank.
  std::uint64_t entered(Rank rank) const {
    return members_.state(rank).activity.entered.load(std::memory_order_relaxed);
  }
  // The caller sees all stores of the rank up to the end of this call.
  std::uint64_t completed(Rank rank) const {
    return members_.state(rank).activity.completed.load(std::memory_order_acquire);  // pairs with complete()
  }
  // Neither in a call nor in a group of transfers.
  bool is_idle(Rank rank) const;
  bool is_waiting(Rank rank) const {
    return members_.state(rank).activity.waits_since_us.load(std::memory_order_relaxed) != 0;
  }
  // False when the rank has not entered that call, or a later call has overwritten the record.
  bool read(Rank rank, std::uint64_t sequence, CallSignature& call) const {
    return members_.state(rank).records[sequence % SharedState::kRecords].read(sequence, call);
  }
  // "AllReduce(count=4, float, sum)"; "" between calls.
  std::string text(Rank rank) const;
  std::vector<LaneWait> waits(Rank rank) const;
  double waits_seconds(Rank rank) const;

  // Of a rank of another host the news of its call may come after its message. Waits until that rank has entered a call
  // of this number, for 300 ms at the most; does nothing for a rank of this host.
  void await_news(Rank rank, std::uint64_t sequence) const;
  // Throws invalid_usage when the rank's call of the same number differs from `mine`.
  void compare(Rank rank, const CallSignature& mine) const;
  // The same for this rank's calls `first` to `last`. Calls whose records were overwritten are not compared.
  void compare(Rank rank, std::uint64_t first, std::uint64_t last) const;

 private:
  void forget_waits();

  const Members& members_;
};

}  // namespace sccl::runtime
