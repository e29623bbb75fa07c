#include "runtime/gpu/watch/buffer_withdrawal.h"

#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/settings/log.h"

namespace sccl::runtime {
namespace {

// Within a second, a peer that waits for this rank learns that the rank has failed.
constexpr std::chrono::milliseconds kWithdrawalLimit{5000};

}  // namespace

BufferWithdrawal::BufferWithdrawal(Membership& membership, DeviceWatch& watch)
    : membership_(membership), watch_(watch), lends_buffers_(membership.on_device->direct) {}

// Pairs with withdraw(): the caller has announced its call before it looks here.
void BufferWithdrawal::refuse_after_withdrawal() const {
  for (Rank rank = 0; rank < membership_.ranks; ++rank) {
    if (rank == membership_.rank || !shares_words(rank) || words(rank).withdrawn.load(std::memory_order_seq_cst) == 0)
      continue;
    watch_.check();
    watch_.check_fault(rank);  // its error says more than the error below
    fail(ErrorCode::remote_error,
         "rank {}: rank {} has failed or was aborted, and its buffers are its own again: abort this "
         "communicator and make a new one",
         membership_.rank, rank);
  }
}

// Pairs with refuse_after_withdrawal(): this rank announces its withdrawal before it looks for calls in flight.
void BufferWithdrawal::withdraw() noexcept {
  const bool lends_buffers = lends_buffers_.load(std::memory_order_acquire);
  const bool lends_windows = lends_windows_.load(std::memory_order_relaxed);
  if (lends_buffers || lends_windows) words(membership_.rank).withdrawn.store(1, std::memory_order_seq_cst);
  const auto limit = std::chrono::steady_clock::now() + kWithdrawalLimit;
  const auto peers = lends_windows ? DeviceWatch::Peers::at_rest : DeviceWatch::Peers::ignored;
  if (membership_.on_device->streams && !watch_.settle_streams(limit, peers))
    log::warn(
        "rank {}: streams of a call that has ended with an error have not come to rest in {} ms: keep its buffers "
        "until they have",
        membership_.rank, kWithdrawalLimit.count());
  CallsInFlight& in_flight = watch_.in_flight();
  // A call that has ended normally has its buffers back already.
  if (!lends_buffers || watch_.loss().ask() || (in_flight.idle() && !in_flight.kernel_was_stopped())) return;
  for (Rank rank = 0; rank < membership_.ranks; ++rank)
    if (rank != membership_.rank) await_kernel_of(rank, limit);
}

void BufferWithdrawal::await_kernel_of(Rank peer, std::chrono::steady_clock::time_point limit) const {
  // When a process ends, the device drops its kernels before other processes can see the end.
  const auto at_rest = [&] { return words(peer).idle() || membership_.control.health().has_ended(peer); };
  while (!at_rest() && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  if (at_rest()) return;
  log::warn(
      "rank {}: a kernel of rank {} may still use the buffers of a call that has ended with an error: keep them until "
      "that rank's work has ended",
      membership_.rank, peer);
}

}  // namespace sccl::runtime
