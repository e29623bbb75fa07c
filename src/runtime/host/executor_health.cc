// What a rank finds out that waits, or that is told what it did not expect: peers that failed, left, died, or are in
// another call.
#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "platform/host/fences.h"
#include "runtime/host/executor.h"

namespace sccl::runtime {

bool Executor::waits_for(Rank rank) const {
  const std::vector<Rank> ranks = awaited();
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

Executor::Progress Executor::check_health() {
  if (stop_.abort.load(std::memory_order_acquire))  // pairs with Communicator::abort
    fail(ErrorCode::invalid_usage, "rank {} was aborted while in {}", membership_.rank, waiting_text());
  if (stop_.revoked.load(std::memory_order_acquire))  // pairs with Communicator::revoke
    fail(ErrorCode::invalid_usage, "rank {} was revoked while in {}", membership_.rank, waiting_text());
  note_wait();
  bool moved = false;
  for (Rank rank = 0; rank < membership_.ranks; ++rank) {
    const Progress progress = rank == membership_.rank ? Progress::idle : check_peer(rank);
    if (progress == Progress::done) return progress;
    moved = moved || progress == Progress::moved;
  }
  return moved ? Progress::moved : Progress::idle;
}

// Only where a call waits long enough to ask for its peers' health, so that others can see it.
void Executor::note_wait() {
  Activity& activity = membership_.own_state().activity;
  if (activity.waits_since_us.load(std::memory_order_relaxed) == 0)
    activity.waits_since_us.store(monotonic_us(), std::memory_order_relaxed);
  const std::vector<Rank> peers = awaited();
  for (std::size_t i = 0; i < Activity::kMostAwaited; ++i)
    activity.waits_for[i].store(i < peers.size() ? peers[i] : -1, std::memory_order_relaxed);
}

Executor::Progress Executor::check_peer(Rank rank) {
  const Peer& peer = membership_.peers[static_cast<std::size_t>(rank)];
  peer.check_fault();
  if (collective_) {
    compare_calls(rank);
    if (const Progress progress = check_completed(peer, rank); progress != Progress::idle) return progress;
    check_gathering(peer, rank);
  }
  const bool gone = peer.state->presence.load(std::memory_order_acquire) != 0 || peer.has_ended();  // pairs with leave
  // What the peer sent before it left may have arrived since the lanes were last stepped.
  if (!gone || !waits_for(rank)) return Progress::idle;
  if (const Progress progress = step(); progress != Progress::idle || !waits_for(rank)) return progress;
  const auto presence = static_cast<Presence>(peer.state->presence.load(std::memory_order_acquire));
  fail_departed(membership_, rank, presence, waiting_text());
}

// A rank that only sends may be so many calls ahead that its record of this one is gone. If it has completed this call,
// all it had to send or take is sent and taken: who waits for more is in another call than it was.
Executor::Progress Executor::check_completed(const Peer& peer, Rank rank) {
  if (!waits_for(rank)) return Progress::idle;
  const std::uint64_t completed = peer.state->activity.completed.load(std::memory_order_acquire);  // pairs with step
  if (completed < signature_.sequence) return Progress::idle;
  if (const Progress progress = step(); progress != Progress::idle || !waits_for(rank)) return progress;
  compare_past_calls(rank);
  fail(ErrorCode::invalid_usage,
       "rank {} called {} as call {} of this communicator and waits for rank {}, which has completed another call as "
       "that "
       "one and gone on to call {}: make the ranks' calls equal, in the same order",
       membership_.rank, signature_.text(), signature_.sequence, rank,
       peer.state->activity.entered.load(std::memory_order_relaxed));
}

// A peer that waits for this rank in a Split or the like, and has not made this call, never will.
void Executor::check_gathering(const Peer& peer, Rank rank) const {
  const std::uint64_t record = peer.state->gathering.load(std::memory_order_acquire);  // pairs with Gathering
  const auto presence = static_cast<Presence>(peer.state->presence.load(std::memory_order_relaxed));
  if (presence != Presence::present ||
      record <= membership_.peers[static_cast<std::size_t>(membership_.rank)].state->records_shown ||
      peer.state->activity.entered.load(std::memory_order_relaxed) >= signature_.sequence)
    return;
  fail(ErrorCode::invalid_usage,
       "rank {} called {} as call {} of this communicator while rank {} splits or shrinks it, registers a window or "
       "suspends it: make the ranks' calls equal, in the same order",
       membership_.rank, signature_.text(), signature_.sequence, rank);
}

// A rank that only sends in a rooted call meets no message of its peers that could disagree. Of two ranks that
// disagree, the one that entered later finds the other's record here: both published theirs before the fence that ends
// an operation, and read the other's after it.
void Executor::compare_all_calls() {
  host::full_fence();
  for (Rank rank = 0; rank < membership_.ranks; ++rank)
    if (rank != membership_.rank) compare_calls(rank);
}

void Executor::compare_calls(Rank rank) {
  CallSignature theirs;
  const auto& records = membership_.peers[static_cast<std::size_t>(rank)].state->records;
  if (records[signature_.sequence % SharedState::kRecords].read(signature_.sequence, theirs) && !(theirs == signature_))
    throw Error(ErrorCode::invalid_usage, mismatch_text(membership_.rank, signature_, rank, theirs));
}

// Where both of two ranks only sent, their next message tells that they disagreed.
void Executor::compare_past_calls(Rank rank) {
  const auto& mine = membership_.own_state().records;
  const auto& theirs = membership_.peers[static_cast<std::size_t>(rank)].state->records;
  const std::uint64_t kept = std::min<std::uint64_t>(signature_.sequence, SharedState::kRecords);
  for (std::uint64_t sequence = signature_.sequence - kept + 1; sequence < signature_.sequence; ++sequence) {
    CallSignature my_call, their_call;
    const std::size_t at = sequence % SharedState::kRecords;
    if (mine[at].read(sequence, my_call) && theirs[at].read(sequence, their_call) && !(my_call == their_call))
      throw Error(ErrorCode::invalid_usage, mismatch_text(membership_.rank, my_call, rank, their_call));
  }
}

void Executor::fail_mismatch(Rank peer) {
  if (!collective_)
    fail(ErrorCode::invalid_usage,
         "rank {} receives from rank {} a transfer of another size than it asked for: make the counts and types of "
         "Send and Recv equal",
         membership_.rank, peer);
  compare_calls(peer);
  compare_past_calls(peer);
  fail(ErrorCode::invalid_usage,
       "rank {} is in call {}, {}, and met a message of another call of rank {}: make the ranks' calls equal, in the "
       "same order",
       membership_.rank, signature_.sequence, signature_.text(), peer);
}

void Executor::fail_transfer() {
  for (const Peer& peer : membership_.peers) peer.check_fault();  // a rank that gave up took its buffers with it
  fail(ErrorCode::remote_error,
       "rank {} cannot reach the memory of rank {} any more ({}) in {}: look at that rank's output", membership_.rank,
       target_.failed_peer(), std::strerror(target_.error()), waiting_text());
}

std::vector<Rank> Executor::awaited() const {
  if (comparing_) return mapped_.missing();
  std::vector<Rank> peers;
  for (const device::LaneState& lane : lanes_)
    if (lane.blocked_on_peer >= 0) peers.push_back(lane.blocked_on_peer);
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

std::string Executor::waiting_text() const {
  const std::string text = collective_ ? fmt::format("{} as call {}", signature_.text(), signature_.sequence)
                                       : std::string("a group of Send and Recv");
  const std::vector<Rank> peers = awaited();
  return peers.empty() ? text : fmt::format("{}, waiting for rank {}", text, fmt::join(peers, ", "));
}

}  // namespace sccl::runtime
