// Ranks of one process and device may share hardware queues. A queue may hold up the other ranks' kernels behind this
// rank's next kernel, which waits for them. So a rank does not run ahead of the others by more than one call.
#pragma once

#include <cstdint>

#include "runtime/gpu/watch/calls_in_flight.h"
#include "runtime/membership/membership.h"

namespace sccl::runtime {

class LaunchPace {
 public:
  // Both must outlive this object.
  LaunchPace(Membership& membership, const CallsInFlight& in_flight);

  // A collective of this rank was enqueued or captured.
  void count_collective();
  // Waits for ranks that share queues with this rank and are more than one call behind. If a rank stays behind for too
  // long (its thread is busy with other work), logs one warning and never waits again.
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
