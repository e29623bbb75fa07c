#include "runtime/gpu/launch/launch_pace.h"

#include <chrono>
#include <thread>
#include <utility>

#include "base/settings/log.h"

namespace sccl::runtime {
namespace {

// If a rank's host is later than this, the same thread probably makes the calls of both ranks.
constexpr std::chrono::milliseconds kPaceLimit{1000};
// Threads that make their calls at the same time launch within microseconds, and a sleep takes far longer.
constexpr std::chrono::microseconds kYielding{200};

}  // namespace

LaunchPace::LaunchPace(Membership& membership, const CallsInFlight& in_flight)
    : membership_(membership), in_flight_(in_flight) {
  for (Rank rank = 0; rank < membership_.ranks; ++rank) shares_queues_ = shares_queues_ || shares_queues_with(rank);
  keeps_pace_ = shares_queues_;
}

// Whether `rank` is another rank of this process on this device.
bool LaunchPace::shares_queues_with(Rank rank) const {
  return rank != membership_.rank && peer(rank).neighbour != nullptr && peer(rank).same_device;
}

// Pairs with keep().
void LaunchPace::count_collective(Captured captured) {
  launched_ = launched_ || captured == Captured::no;
  peer(membership_.rank).words->collectives.fetch_add(1, std::memory_order_release);
}

// Pairs with count_collective().
void LaunchPace::keep() {
  if (!std::exchange(launched_, false) || !keeps_pace_) return;
  const auto begun = std::chrono::steady_clock::now();
  const std::uint64_t own = peer(membership_.rank).words->collectives.load(std::memory_order_relaxed);
  for (Rank rank = 0; rank < membership_.ranks; ++rank) {
    if (!shares_queues_with(rank)) continue;
    const auto& calls = peer(rank).words->collectives;
    while (calls.load(std::memory_order_acquire) < own && !in_flight_.stopping()) {
      const auto waited = std::chrono::steady_clock::now() - begun;
      if (waited < kYielding) {
        std::this_thread::yield();
        continue;
      }
      if (waited > kPaceLimit) {
        keeps_pace_ = false;
        return log::warn(
            "rank {} is {} calls ahead of rank {} of the same process and device: hardware queues may hold up kernels "
            "that wait for each other: put the calls of both between ncclGroupStart and ncclGroupEnd, or set "
            "CUDA_DEVICE_MAX_CONNECTIONS=32 before the program starts",
            membership_.rank, own - calls.load(std::memory_order_relaxed), rank);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
}

}  // namespace sccl::runtime
