// The slow half of waiting on a device: why the calls in flight cannot end. Every function throws the cause that it
// finds: this rank was aborted; a peer failed, left or died; the ranks are in different calls; or two ranks were given
// the same stream.
#pragma once

#include <chrono>
#include <optional>

#include "runtime/call/stop.h"
#include "runtime/gpu/watch/calls_in_flight.h"
#include "runtime/membership/membership.h"

namespace sccl::runtime {

// For one thread.
class DeviceCallHealth {
 public:
  // All must outlive this object.
  DeviceCallHealth(Membership& membership, CallsInFlight& in_flight, const StopFlags& stop)
      : membership_(membership), in_flight_(in_flight), stop_(stop) {}

  bool is_stopped() const {
    return stop_.abort.load(std::memory_order_acquire) || stop_.revoked.load(std::memory_order_acquire);
  }

  // Checks whether a kernel has ended early and given its reason.
  void check_kernels();
  // All other checks of the calls and their ranks. Nothing has moved for the time `waited`.
  void check(std::chrono::steady_clock::duration waited);

 private:
  using Duration = std::chrono::steady_clock::duration;

  void check_streams(Duration waited);
  void check_same_calls() const;
  void check_same_call(Rank peer) const;
  void check_peers(Duration waited);
  void check_link(const DeviceProxy& proxy, Rank awaited) const;
  void check_follower(Duration waited);
  [[noreturn]] void fail_mismatch(Rank peer) const;
  [[noreturn]] void fail_stopped() const;
  [[noreturn]] void fail_stopped_peer(Rank peer) const;

  Membership& membership_;
  CallsInFlight& in_flight_;
  const StopFlags& stop_;
  std::optional<std::chrono::steady_clock::time_point> stopped_since_;  // stopped by a peer that has given no reason
  // About the last follower (DeviceNeighbour).
  struct {
    device::u64 own_kernel = 0, its_kernel = 0;
    std::uint32_t question = 0;
  } asked_about_follower_;
};

}  // namespace sccl::runtime
