// Ranks of one process and device may share hardware queues: a queue may hold up their kernels behind the next one of
// this rank, which waits for them. So a rank does not run ahead of them by more than a call.
#pragma once

#include <cstdint>

#include "runtime/gpu/watch/calls_in_flight.h"
#include "runtime/membership/membership.h"

namespace sccl::runtime {

class LaunchPace {
 public:
  // Both must outlive it.
  LaunchPace(Membership& membership, const CallsInFlight& in_flight);

  // A collective of this rank is with the driver, or captured.
  void count_collective();
  // Waits for ranks that share queues with this one and are more than a call behind. Not for long: a rank whose thread
  // is busy with something else is told of once, and not waited for any more.
  void keep();

  bool shares_queues() const { return shares_queues_; }

 private:
  const DevicePeer& peer(Rank rank) const { return membership_.on_device->peers[static_cast<std::size_t>(rank)]; }
  bool shares_queues_with(Rank rank) const;

  Membership& membership_;
  const CallsInFlight& in_flight_;
  bool shares_queues_ = false;
  bool keeps_pace_ = false;
};

}  // namespace sccl::runtime
