// What a rank's executor does about others that may use its buffers: announces its own kernels to them, and takes its
// buffers back.
#include <algorithm>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/settings/log.h"
#include "runtime/gpu/kernel/device_executor.h"

namespace sccl::runtime {
namespace {

// A peer that waits for this rank learns within a second that it waits in vain.
constexpr std::chrono::milliseconds kWithdrawalLimit{5000};
// A rank whose host is later than that is probably called by the same thread.
constexpr std::chrono::milliseconds kPaceLimit{500};

}  // namespace

// Throws where a peer has taken its buffers back: a kernel might still find their addresses in its rings, a put in
// windows.
void DeviceExecutor::refuse_after_withdrawal() const {
  for (Rank rank = 0; rank < membership_.ranks; ++rank) {
    if (rank == membership_.rank || peer(rank).words->withdrawn.load(std::memory_order_seq_cst) == 0) continue;
    watch_.check();
    watch_.check_fault(rank);  // says more
    fail(ErrorCode::remote_error,
         "rank {}: rank {} has failed or was aborted, and its buffers are its own again: abort this "
         "communicator and make a new one",
         membership_.rank, rank);
  }
}

void DeviceExecutor::announce(device::u64 sequence, gpu::Stream stream) {
  peer(membership_.rank).words->launched.store(sequence, std::memory_order_seq_cst);
  watch_.in_flight().launched(sequence);
  try {
    refuse_after_withdrawal();
  } catch (const Error&) {
    take_back_announcement(sequence);
    throw;
  }
  const std::shared_ptr<DeviceNeighbour>& own = peer(membership_.rank).neighbour;
  const bool shares_process =
      std::any_of(on_device_.peers.begin(), on_device_.peers.end(),
                  [&](const DevicePeer& other) { return other.neighbour && other.neighbour != own; });
  if (!shares_process) return;
  const StreamUse before = take_stream(on_device_.device.context, stream, {own, sequence});
  for (Rank rank = 0; before.by && before.by != own && rank < membership_.ranks; ++rank)
    if (peer(rank).neighbour == before.by) before.by->is_followed_by({membership_.rank, before.kernel, sequence});
}

void DeviceExecutor::take_back_announcement(device::u64 sequence) {
  launches_ = sequence - 1;
  peer(membership_.rank).words->launched.store(launches_, std::memory_order_seq_cst);
  watch_.in_flight().launched(launches_);
}

// Pairs with launch_next.
void DeviceExecutor::keep_pace() {
  if (!keeps_pace_ || prepared_count_ == 0 || prepared_[0]->capture.id != 0) return;
  const auto limit = std::chrono::steady_clock::now() + kPaceLimit;
  const std::uint64_t own = peer(membership_.rank).words->collectives.load(std::memory_order_relaxed);
  for (Rank rank = 0; rank < membership_.ranks; ++rank) {
    if (rank == membership_.rank || !shares_queues(rank)) continue;
    const auto& calls = peer(rank).words->collectives;
    while (calls.load(std::memory_order_acquire) < own && !watch_.in_flight().stopping()) {
      if (std::chrono::steady_clock::now() > limit) {
        keeps_pace_ = false;
        return log::warn(
            "rank {} is {} calls ahead of rank {} of the same process and device: hardware queues may hold up kernels "
            "that wait for each other: put the calls of both between ncclGroupStart and ncclGroupEnd, or set "
            "CUDA_DEVICE_MAX_CONNECTIONS=32 before the program starts",
            membership_.rank, own + 1 - calls.load(std::memory_order_relaxed), rank);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
}

void DeviceExecutor::withdraw() noexcept {
  const bool lends = lends_buffers_.load(std::memory_order_acquire);
  const bool has_windows = has_windows_.load(std::memory_order_relaxed);
  if (lends || has_windows) peer(membership_.rank).words->withdrawn.store(1, std::memory_order_seq_cst);
  const auto limit = std::chrono::steady_clock::now() + kWithdrawalLimit;
  const auto peers = has_windows ? DeviceWatch::Peers::at_rest : DeviceWatch::Peers::ignored;
  if (on_device_.streams && !watch_.settle_streams(limit, peers))
    log::warn(
        "rank {}: streams of a call that has ended with an error have not come to rest in {} ms: keep its buffers "
        "until they have",
        membership_.rank, kWithdrawalLimit.count());
  // A call that has come to its end has its buffers back already.
  if (!lends || watch_.loss().ask() || (watch_.in_flight().idle() && !watch_.in_flight().kernel_was_stopped())) return;
  for (Rank rank = 0; rank < membership_.ranks; ++rank) {
    if (rank == membership_.rank) continue;
    // A device gives up the kernels of a process that has ended before others can see the end.
    const auto at_rest = [&] { return peer(rank).words->idle() || membership_.control.health().has_ended(rank); };
    while (!at_rest() && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    if (!at_rest())
      log::warn(
          "rank {}: a kernel of rank {} may still use the buffers of a call that has ended with an error: keep them "
          "until "
          "that rank's work has ended",
          membership_.rank, rank);
  }
}

}  // namespace sccl::runtime
