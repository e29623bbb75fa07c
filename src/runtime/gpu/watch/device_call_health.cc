#include "runtime/gpu/watch/device_call_health.h"

#include "base/error.h"
#include "runtime/transport/proxy/device_proxy.h"

namespace sccl::runtime {
namespace {

using device::gpu::StopReason;

// A peer that has left may have sent everything before: its messages in flight get this long to arrive.
constexpr std::chrono::milliseconds kDepartedWaitLimit{1000};
// The message that a kernel waits for may have been sent already; it gets this long to arrive.
constexpr std::chrono::milliseconds kFollowerWaitLimit{300};
// The ranks' calls are compared when nothing has moved for this long.
constexpr std::chrono::milliseconds kAtRest{50};

}  // namespace

void DeviceCallHealth::check_kernels() {
  const Rank peer = in_flight_.stopping_peer();
  switch (in_flight_.stop_reason()) {
    case StopReason::none:
      return;
    case StopReason::host:
      fail_stopped();
    case StopReason::mismatch:
      fail_mismatch(peer);
    case StopReason::peer:
      membership_.control.health().check_fault(peer);
      // The peer stops its kernels first and publishes the reason afterwards.
      if (!stopped_since_) stopped_since_ = std::chrono::steady_clock::now();
      if (std::chrono::steady_clock::now() - *stopped_since_ < kDepartedWaitLimit) return;
      fail_stopped_peer(peer);
    case StopReason::overlap:
      fail(ErrorCode::invalid_usage,
           "rank {}: two calls of this communicator ran on its device at the same time, one of them from a replayed "
           "graph: order their streams, by events, and replay a graph on one stream at a time",
           membership_.rank);
    case StopReason::unreachable:
      fail(ErrorCode::internal_error, "rank {} cannot reach the memory of rank {} from its kernel: report this",
           membership_.rank, peer);
  }
}

void DeviceCallHealth::check(Duration waited) {
  const StreamWatch* const streams = in_flight_.streams();
  if (streams != nullptr && streams->busy()) {
    check_streams(waited);
  } else if (waited >= kAtRest) {
    // Kernels compare the calls of messages that they receive; two kernels that wait for different messages receive
    // nothing.
    check_same_calls();
  }
  check_peers(waited);
  check_follower(waited);
}

// Streams check nothing themselves: neither stop flags nor the calls of messages.
void DeviceCallHealth::check_streams(Duration waited) {
  if (is_stopped()) fail_stopped();
  if (waited < kAtRest) return;
  check_same_calls();
  const StreamWatch& streams = *in_flight_.streams();
  if (const Rank peer = streams.mismatch(); peer >= 0) fail_mismatch(peer);
  if (const Rank peer = streams.stopping_peer(); peer >= 0) {
    membership_.control.health().check_fault(peer);
    fail_stopped_peer(peer);
  }
}

// Throws if the ranks' calls that have not ended differ.
void DeviceCallHealth::check_same_calls() const {
  for (Rank peer = 0; peer < membership_.ranks; ++peer) check_same_call(peer);
}

void DeviceCallHealth::check_same_call(Rank peer) const {
  const Calls calls = membership_.control.calls();
  calls.compare(peer, 1, calls.entered(membership_.rank));
}

void DeviceCallHealth::check_peers(Duration waited) {
  for (Rank rank = 0; rank < membership_.ranks; ++rank) {
    if (rank == membership_.rank) continue;
    const PeerHealth health = membership_.control.health();
    health.check_fault(rank);
    const Presence presence = health.presence(rank);
    const bool dead = health.has_ended(rank);
    if (presence == Presence::present && !dead) continue;
    if (waited < kDepartedWaitLimit) continue;
    // A normally destroyed peer is an error only if we still wait for it.
    if (presence == Presence::destroyed && !in_flight_.awaits_in_vain(rank)) continue;
    health.fail_departed(rank, presence, in_flight_.text());
  }
  if (const auto& proxy = membership_.on_device->proxy) check_link(*proxy, in_flight_.awaited());
}

void DeviceCallHealth::check_link(const DeviceProxy& proxy, Rank awaited) const {
  if (awaited < 0) return;
  const auto failure = proxy.failure(awaited);
  // What came before the connection was lost is there for the kernel.
  if (!failure || !in_flight_.awaits_in_vain(awaited)) return;
  const PeerHealth health = membership_.control.health();
  if (health.is_gone(awaited)) health.fail_departed(awaited, health.presence(awaited), in_flight_.text());
  failure->check(in_flight_.text());
}

// A thread with two ranks may give both the same stream by mistake. Then the first kernel waits for the second, which
// cannot begin behind it. This is certain if the second kernel is the next one of its rank.
void DeviceCallHealth::check_follower(Duration waited) {
  if (waited < kFollowerWaitLimit) return;
  const auto& peers = membership_.on_device->peers;
  const DevicePeer& own = peers[static_cast<std::size_t>(membership_.rank)];
  const auto follower = own.neighbour->follower();
  if (!follower || own.words->finished() >= follower->own_kernel) return;
  const NeighbourWords& other = *peers[static_cast<std::size_t>(follower->rank)].words;
  if (other.finished() + 1 != follower->its_kernel) return;
  // Both kernels may wait for work of the program that comes before them, as long as the first needs not the second.
  auto& asked = asked_about_follower_;
  if (asked.own_kernel != follower->own_kernel || asked.its_kernel != follower->its_kernel)
    asked = {follower->own_kernel, follower->its_kernel, in_flight_.ask()};
  if (!in_flight_.kernel_awaits_since(asked.question, follower->rank)) return;
  fail(ErrorCode::invalid_usage,
       "ranks {} and {} use one device and were given one stream, outside of a group: the kernel of rank {} waits for "
       "that of rank {}, which comes behind it: put the calls of both between ncclGroupStart and ncclGroupEnd, or give "
       "each rank a stream of its own",
       membership_.rank, follower->rank, membership_.rank, follower->rank);
}

void DeviceCallHealth::fail_mismatch(Rank peer) const {
  const Calls calls = membership_.control.calls();
  calls.await_news(peer, calls.entered(membership_.rank));
  check_same_call(peer);
  fail(
      ErrorCode::invalid_usage,
      "rank {} met a message of another call, or of another size, of rank {}: make the ranks' calls equal, in the same "
      "order, and the counts of Send and Recv; replay captured graphs equally often on all ranks",
      membership_.rank, peer);
}

void DeviceCallHealth::fail_stopped() const {
  fail(ErrorCode::invalid_usage, "rank {} was {} while in {}", membership_.rank,
       stop_.revoked.load(std::memory_order_acquire) ? "revoked" : "aborted", in_flight_.text());
}

void DeviceCallHealth::fail_stopped_peer(Rank peer) const {
  fail(ErrorCode::remote_error, "rank {} stopped while rank {} was in {}: look at that rank's output", peer,
       membership_.rank, in_flight_.text());
}

}  // namespace sccl::runtime
