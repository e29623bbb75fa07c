// Ranks of one process and device share its hardware queues and copy engines. What the program enqueues behind a
// collective stands in one of these until the collective has ended, and what others enqueue waits behind it: the copy
// of rank 0's result waits for rank 1's kernel, and rank 1, which copies an earlier result before it makes its call,
// waits behind that copy (seen on an H200 with 8 ranks as threads). So a collective returns when the other ranks have
// enqueued it, too.
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
  enum class Captured : bool { no, yes };
  void count_collective(Captured captured);
  // After the launch: waits for ranks that share queues with this rank and have made fewer calls. If a rank stays
  // behind for too long (its thread is busy with other work), logs one warning and never waits again. Calls that were
  // captured wait for nobody.
  void keep();

  bool shares_queues() const { return shares_queues_; }

 private:
  const DevicePeer& peer(Rank rank) const { return membership_.on_device->peers[static_cast<std::size_t>(rank)]; }
  bool shares_queues_with(Rank rank) const;

  Membership& membership_;
  const CallsInFlight& in_flight_;
  bool shares_queues_ = false;
  bool keeps_pace_ = false;
  bool launched_ = false;  // some collective since keep()
};

}  // namespace sccl::runtime
