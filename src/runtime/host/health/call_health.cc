#include "runtime/host/health/call_health.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/error.h"
#include "platform/host/fences.h"

namespace sccl::runtime {
namespace {

using std::chrono::milliseconds;

// As kLateMessagesHostTimeouts, for a process that has ended since: it sends nothing again.
constexpr milliseconds kEndedSendersMessages{2000};
// The same for a process that ended in the middle of a call: its messages are already in this host's buffers.
constexpr milliseconds kLastMessages{20};

bool waits_for(const WaitingCall& call, Rank rank) {
  const std::vector<LaneWait> waits = call.waits();
  return std::any_of(waits.begin(), waits.end(), [&](const LaneWait& wait) { return wait.peer == rank; });
}

}  // namespace

std::string WaitingCall::text() const {
  const CallSignature* const call = signature();
  const std::string text = call != nullptr ? fmt::format("{} as call {}", call->text(), call->sequence)
                                           : std::string("a group of Send and Recv");
  const std::vector<Rank> peers = awaited();
  return peers.empty() ? text : fmt::format("{}, waiting for {}", text, members_.named(peers));
}

std::vector<Rank> WaitingCall::awaited() const {
  std::set<Rank> peers;
  for (const LaneWait& wait : waits()) peers.insert(wait.peer);
  return {peers.begin(), peers.end()};
}

Progress CallHealth::check(WaitingCall& call, LateMessages late) const {
  if (stop_.abort.load(std::memory_order_acquire))  // pairs with Communicator::abort
    fail(ErrorCode::invalid_usage, "rank {} was aborted while in {}", own(), call.text());
  if (stop_.revoked.load(std::memory_order_acquire))  // pairs with Communicator::revoke
    fail(ErrorCode::invalid_usage, "rank {} was revoked while in {}", own(), call.text());
  // Only long waits reach this point, so peers see only long waits.
  control_.calls().note_waits(call.waits());
  bool moved = false;
  for (Rank rank = 0; rank < control_.members().ranks(); ++rank) {
    const Progress progress = rank == own() ? Progress::idle : check_peer(call, rank, late);
    if (progress == Progress::done) return progress;
    moved = moved || progress == Progress::moved;
  }
  return moved ? Progress::moved : Progress::idle;
}

Progress CallHealth::check_peer(WaitingCall& call, Rank rank, LateMessages late) const {
  const PeerHealth health = control_.health();
  health.check_fault(rank);
  if (const CallSignature* const mine = call.signature()) {
    control_.calls().compare(rank, *mine);
    if (const Progress progress = check_completed(call, *mine, rank); progress != Progress::idle) return progress;
    check_gathering(*mine, rank);
  }
  if (!health.is_gone(rank)) return Progress::idle;
  if (!waits_for(call, rank)) return check_bystander(call, rank, late);
  // Messages that the peer sent before it left may have arrived since the lanes were last stepped.
  const Progress progress = call.advance();
  if (progress == Progress::done || !waits_for(call, rank)) return progress;
  // Motion may be that of others.
  if (progress == Progress::moved && late == LateMessages::by_waiting_time) return progress;
  if (may_be_on_its_way(call, rank, late)) return progress;
  health.fail_departed(rank, health.presence(rank), call.text());
}

// A lost host ends this communicator for every rank, also for a rank whose call waits for others alone. As long as the
// call moves, it may end well.
Progress CallHealth::check_bystander(WaitingCall& call, Rank rank, LateMessages late) const {
  const PeerHealth health = control_.health();
  if (late == LateMessages::have_come || !health.is_lost(rank)) return Progress::idle;
  const Progress progress = call.advance();
  if (progress == Progress::idle) health.fail_departed(rank, health.presence(rank), call.text());
  return progress;
}

bool CallHealth::may_be_on_its_way(const WaitingCall& call, Rank rank, LateMessages late) const {
  const PeerHealth health = control_.health();
  if (control_.members().of(rank).locality != Locality::remote || health.is_lost(rank)) return false;
  const CallSignature* const mine = call.signature();
  const bool left_normally = health.presence(rank) == Presence::destroyed;
  const bool has_sent_all = mine != nullptr ? control_.calls().completed(rank) >= mine->sequence : left_normally;
  if (!has_sent_all) return late == LateMessages::by_waiting_time && waited() < kLastMessages;
  const bool sends_again = left_normally || !health.has_ended(rank);
  const milliseconds limit =
      sends_again ? kLateMessagesHostTimeouts * control_.members().host_timeout : kEndedSendersMessages;
  return std::min(waited(), overdue_for(rank, mine != nullptr ? mine->sequence : 0)) < limit;
}

milliseconds CallHealth::waited() const {
  return std::chrono::duration_cast<milliseconds>(std::chrono::duration<double>(control_.calls().waits_seconds(own())));
}

milliseconds CallHealth::overdue_for(Rank rank, std::uint64_t sequence) const {
  const auto now = std::chrono::steady_clock::now();
  const auto [known, fresh] = overdue_.try_emplace(rank, Overdue{sequence, now});
  if (!fresh && known->second.sequence != sequence) known->second = {sequence, now};
  return std::chrono::duration_cast<milliseconds>(now - known->second.since);
}

Progress CallHealth::look_at_news(WaitingCall& call) {
  if (is_stopped()) return check(call);
  switch (news_.look()) {
    case NewsWatch::News::none:
      break;
    case NewsWatch::News::fresh:
      return check(call);
    case NewsWatch::News::settled:
      return check(call, LateMessages::have_come);
  }
  return Progress::moved;
}

NewsWatch::News NewsWatch::look_at_clock() {
  const auto now = std::chrono::steady_clock::now();
  if (const std::uint32_t news = health_.news(); std::exchange(seen_, news) != news) {
    unsettled_ = true;
    since_ = now;
    return News::fresh;
  }
  if (now - since_ < kLastMessages) return News::none;
  unsettled_ = false;
  return News::settled;
}

// A rank that only sends may be so many calls ahead that its record of this one is gone. If it has completed this call,
// all it had to send or take is sent and taken: a rank that waits for more is in another call than that one was.
Progress CallHealth::check_completed(WaitingCall& call, const CallSignature& mine, Rank rank) const {
  if (!waits_for(call, rank) || control_.calls().completed(rank) < mine.sequence) return Progress::idle;
  if (const Progress progress = call.advance(); progress != Progress::idle || !waits_for(call, rank)) return progress;
  compare_past(mine, rank);
  if (may_be_on_its_way(call, rank, LateMessages::by_waiting_time)) return Progress::idle;
  if (control_.members().of(rank).locality == Locality::remote) {
    // What it sent is lost with it, or with its host: check_peer() tells how it left.
    const PeerHealth health = control_.health();
    if (health.is_gone(rank) && health.presence(rank) != Presence::destroyed) return Progress::idle;
    CallSignature theirs;
    if (control_.calls().read(rank, mine.sequence, theirs) && theirs == mine) fail_undelivered(mine, rank);
  }
  fail(
      ErrorCode::invalid_usage,
      "{} called {} as call {} of this communicator and waits for {}, which has completed another call as that one and "
      "gone on to call {}: make the ranks' calls equal, in the same order",
      named(own()), mine.text(), mine.sequence, named(rank), control_.calls().entered(rank));
}

// Both are in the same call, so what the rank sent is lost or held up where the news of the call comes through.
void CallHealth::fail_undelivered(const CallSignature& mine, Rank rank) const {
  fail(ErrorCode::remote_error,
       "{} waits in {} as call {} for {}, which has sent all that it had to and completed the call {:.0f} s ago: {}",
       named(own()), mine.text(), mine.sequence, named(rank),
       std::chrono::duration<double>(overdue_for(rank, mine.sequence)).count(), kLostDataText);
}

// A peer that has not made this call, and waits for this rank in a Split or the like, will never make this call.
void CallHealth::check_gathering(const CallSignature& mine, Rank rank) const {
  const Boards boards = control_.boards();
  const std::uint64_t record = boards.gathering(rank);
  if (control_.health().presence(rank) != Presence::present || record <= boards.records_shown() ||
      control_.calls().entered(rank) >= mine.sequence)
    return;
  fail(ErrorCode::invalid_usage,
       "{} called {} as call {} of this communicator while {} splits or shrinks it, registers a window or suspends it: "
       "make the ranks' calls equal, in the same order",
       named(own()), mine.text(), mine.sequence, named(rank));
}

// A rank that only sends in a rooted call receives no message that could show a disagreement. Of two ranks that
// disagree, the rank that entered later finds the other's record here: each rank publishes its record before the fence
// that ends an operation, and reads the other's record after the fence.
void CallHealth::compare_all(const CallSignature& mine) const {
  host::full_fence();
  for (Rank rank = 0; rank < control_.members().ranks(); ++rank)
    if (rank != own()) control_.calls().compare(rank, mine);
}

// If two ranks both only sent in a call, their next message shows that they disagreed.
void CallHealth::compare_past(const CallSignature& mine, Rank rank) const {
  if (mine.sequence > 1) control_.calls().compare(rank, 1, mine.sequence - 1);
}

void CallHealth::fail_mismatch(const WaitingCall& call, Rank peer) const {
  const CallSignature* const mine = call.signature();
  if (mine == nullptr)
    fail(ErrorCode::invalid_usage,
         "{} receives from {} a transfer of another size than it asked for: make the counts and types of Send and Recv "
         "equal",
         named(own()), named(peer));
  control_.calls().await_news(peer, mine->sequence);
  control_.calls().compare(peer, *mine);
  compare_past(*mine, peer);
  fail(ErrorCode::invalid_usage,
       "{} is in call {}, {}, and met a message of another call of {}: make the ranks' calls equal, in the same order",
       named(own()), mine->sequence, mine->text(), named(peer));
}

void CallHealth::fail_transfer(const WaitingCall& call, Rank peer, int error) const {
  control_.health().check_all_faults();  // a rank that gave up took its buffers with it
  fail(ErrorCode::remote_error,
       "rank {} cannot reach the memory of rank {} any more ({}) in {}: look at that rank's output", own(), peer,
       std::strerror(error), call.text());
}

}  // namespace sccl::runtime
