// Watches over the calls in flight on a device, turn by turn: says who waits for whom, tells kernels to stop when what
// they wait for will not come, and reports why.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "kernels/gpu/arguments.h"
#include "runtime/call/stop.h"
#include "runtime/gpu/resources/device_resources.h"
#include "runtime/gpu/watch/calls_in_flight.h"
#include "runtime/gpu/watch/device_call_health.h"
#include "runtime/gpu/watch/device_loss.h"
#include "runtime/membership/membership.h"
#include "runtime/waiting/stall_watch.h"

namespace sccl::runtime {

class DeviceWatch {
 public:
  // All must outlive it. `on_failure` is called by a turn, once, when a call cannot end.
  DeviceWatch(Membership& membership, DeviceResources& resources, const StopFlags& stop,
              std::function<void(const Error&)> on_failure);
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

  // One look at everything in flight, by one thread. Returns the pause before the next turn.
  std::chrono::milliseconds turn();
  static constexpr std::chrono::milliseconds kPeriod{10};

  // From any thread.
  CallsInFlight& in_flight() { return in_flight_; }
  DeviceLoss& loss() { return loss_; }
  // Throws what has gone wrong.
  void check() const;
  // Throws what a peer has published of its own failure.
  void check_fault(Rank rank) const { membership_.control.health().check_fault(rank); }

  // A call that streams order is about to be enqueued. Throws when a peer's calls are being ended. `sequence` is 0 for
  // captured calls.
  void launching_in_stream(device::u64 sequence);
  // It could not be enqueued.
  void not_launched(device::u64 sequence) { in_flight_.streams()->take_back(static_cast<std::uint32_t>(sequence)); }
  // Returns true when this rank's streams are at rest, after a failure that its peers can see, or an abort; false when
  // `limit` comes first. `peers`: they may write into this rank's windows, so their streams must be at rest, too.
  enum class Peers : std::uint8_t { ignored, at_rest };
  bool settle_streams(std::chrono::steady_clock::time_point limit, Peers peers);

 private:
  void look();
  bool has_moved();
  void check_device();
  void report(const Error& failure);
  std::chrono::steady_clock::duration waited() const { return std::chrono::steady_clock::now() - moved_; }

  Membership& membership_;
  CallsInFlight in_flight_;
  DeviceCallHealth health_;
  DeviceLoss loss_;
  std::function<void(const Error&)> on_failure_;

  // Of the thread that takes the turns.
  device::u64 finished_seen_ = 0;  // kernels
  device::u64 progress_seen_ = 0;  // of streams
  std::chrono::steady_clock::time_point moved_ = std::chrono::steady_clock::now();
  StallWatch stall_;

  mutable std::mutex mutex_;  // guards failure_
  std::optional<Error> failure_;
};

}  // namespace sccl::runtime
