// The slow half of waiting on the host: the checks of a rank that waits, or that received an unexpected message. They
// throw if this rank was aborted, if a peer failed, left or died, and if ranks are in different calls.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/call/signature.h"
#include "runtime/call/stop.h"
#include "runtime/control/control_plane.h"
#include "runtime/host/health/progress.h"

namespace sccl::runtime {

// Messages from another host may arrive later than the news that their sender completed the call or left: they take
// another connection. After an interruption, a connection sends again only when as much time has passed once more. A
// longer interruption than the limit of lost hosts ends the communicator anyway.
inline constexpr int kLateMessagesHostTimeouts = 3;
// What the network does that delivers the news and not the data, and what to do.
inline constexpr const char* kLostDataText =
    "the network delivers short messages between these hosts and not all of the data: look for packets that are longer "
    "than a link on the way takes (MTU), and for filters of connections, then make a new communicator";

// The call in progress, as CallHealth sees it.
class WaitingCall {
 public:
  // `members` must outlive it.
  explicit WaitingCall(const Members& members) : members_(members) {}
  virtual ~WaitingCall() = default;
  // Null for a batch of Send and Recv, which has no common signature.
  virtual const CallSignature* signature() const = 0;
  virtual std::vector<LaneWait> waits() const = 0;
  // One more turn of the call.
  virtual Progress advance() = 0;

  // "AllReduce(count=4, float, sum) as call 7, waiting for rank 3"
  std::string text() const;
  // The ranks that the call waits for, in ascending order, each once.
  std::vector<Rank> awaited() const;

 private:
  const Members& members_;
};

// Over hosts a call may move data with some ranks for seconds while another one, for which it waits, is gone: whoever
// moves asks here.
class NewsWatch {
 public:
  explicit NewsWatch(const PeerHealth& health) : health_(health) {}

  // settled: so long after the news that what a rank had sent before its end has come.
  enum class News : std::uint8_t { none, fresh, settled };
  News look() {
    if (!unsettled_ && health_.news() == seen_) return News::none;
    return look_at_clock();
  }

 private:
  News look_at_clock();

  PeerHealth health_;
  std::uint32_t seen_ = 0;
  bool unsettled_ = false;
  std::chrono::steady_clock::time_point since_;
};

class CallHealth {
 public:
  // Both must outlive it.
  CallHealth(const ControlPlane& control, const StopFlags& stop)
      : control_(control), stop_(stop), news_(control.health()) {}

  // Whether messages of a rank of another host may still come after the news that it is gone.
  enum class LateMessages : std::uint8_t { by_waiting_time, have_come };
  // Called when nothing has moved for a while, or NewsWatch says so. What had arrived from a peer that left is taken
  // meanwhile, which may complete the call: the answer is advance()'s.
  Progress check(WaitingCall& call, LateMessages late = LateMessages::by_waiting_time) const;
  // The same after a turn that moved something; cheap where nothing has happened.
  Progress look_up(WaitingCall& call) {
    return is_stopped() || control_.members().agent_bell ? look_at_news(call) : Progress::moved;
  }
  // Somebody else wants the call to end: check() says who.
  bool is_stopped() const {
    return stop_.abort.load(std::memory_order_relaxed) || stop_.revoked.load(std::memory_order_relaxed);
  }
  // Called when this rank has ended a collective whose ranks may finish without each other.
  void compare_all(const CallSignature& mine) const;
  [[noreturn]] void fail_mismatch(const WaitingCall& call, Rank peer) const;
  [[noreturn]] void fail_transfer(const WaitingCall& call, Rank peer, int error) const;

 private:
  Progress check_peer(WaitingCall& call, Rank rank, LateMessages late) const;
  Progress check_bystander(WaitingCall& call, Rank rank, LateMessages late) const;
  Progress check_completed(WaitingCall& call, const CallSignature& mine, Rank rank) const;
  void check_gathering(const CallSignature& mine, Rank rank) const;
  Progress look_at_news(WaitingCall& call);
  void compare_past(const CallSignature& mine, Rank rank) const;
  // What a rank of another host sent may arrive after the news of what it did then: whether it is too early to judge.
  bool may_be_on_its_way(const WaitingCall& call, Rank rank, LateMessages late) const;
  // Since something moved last.
  std::chrono::milliseconds waited() const;
  // How long it is known that the rank has sent all it had to in this call.
  std::chrono::milliseconds overdue_for(Rank rank, std::uint64_t sequence) const;
  [[noreturn]] void fail_undelivered(const CallSignature& mine, Rank rank) const;
  Rank own() const { return control_.members().rank; }
  std::string named(Rank rank) const { return control_.members().named(rank); }

  const ControlPlane& control_;
  const StopFlags& stop_;
  NewsWatch news_;
  struct Overdue {
    std::uint64_t sequence;  // of the call; 0: a group of Send and Recv
    std::chrono::steady_clock::time_point since;
  };
  mutable std::map<Rank, Overdue> overdue_;  // ranks of other hosts whose messages are missing
};

}  // namespace sccl::runtime
