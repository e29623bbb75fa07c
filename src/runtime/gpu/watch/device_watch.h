// Watches the calls in flight on a device, turn by turn: tells which ranks wait for which, stops kernels that wait for
// something that will not come, and reports why.
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
  // All must outlive this object. A turn calls `on_failure`, once, when a call cannot end.
  DeviceWatch(Membership& membership, DeviceResources& resources, const StopFlags& stop,
              std::function<void(const Error&)> on_failure);
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

  // One look at everything in flight, by one thread. Returns the pause before the next turn.
  // `check`: throws what else has failed.
  std::chrono::milliseconds turn(const std::function<void()>& check);
  static constexpr std::chrono::milliseconds kPeriod{10};

  // From any thread.
  CallsInFlight& in_flight() { return in_flight_; }
  const CallsInFlight& in_flight() const { return in_flight_; }
  DeviceLoss& loss() { return loss_; }
  // Throws this rank's failure, if there is one.
  void check() const;
  // Throws the failure that a peer has published, if there is one.
  void check_fault(Rank rank) const { membership_.control.health().check_fault(rank); }

  // Call it before enqueueing a call that streams order. Throws if this rank's or a peer's calls are being ended.
  // `sequence` is 0 for captured calls.
  void launching_in_stream(device::u64 sequence);
  // The call could not be enqueued.
  void not_launched(device::u64 sequence) { in_flight_.streams()->take_back(static_cast<std::uint32_t>(sequence)); }
  // For use after an abort or a failure that the peers can see. Returns true when this rank's streams are at rest;
  // false if `limit` comes first. Peers::at_rest: peers may write into this rank's windows, so their streams must be at
  // rest, too.
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

  // Used only by the thread that takes the turns.
  device::u64 finished_seen_ = 0;  // kernels
  device::u64 progress_seen_ = 0;  // of streams
  std::chrono::steady_clock::time_point moved_ = std::chrono::steady_clock::now();
  StallWatch stall_;

  mutable std::mutex mutex_;  // guards failure_
  std::optional<Error> failure_;
};

}  // namespace sccl::runtime
