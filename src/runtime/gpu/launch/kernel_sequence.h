// The numbers of a rank's calls on its device, and the announcement of each number before its call can begin: to peers
// that may take their buffers back, to the watch, and to ranks that use the same stream.
#pragma once

#include <cstdint>

#include "kernels/gpu/arguments.h"
#include "platform/gpu/device.h"
#include "runtime/gpu/watch/buffer_withdrawal.h"
#include "runtime/gpu/watch/calls_in_flight.h"
#include "runtime/membership/membership.h"

namespace sccl::runtime {

class KernelSequence {
 public:
  // All must outlive this object.
  KernelSequence(Membership& membership, CallsInFlight& in_flight, const BufferWithdrawal& withdrawal);

  // The number of the next call; 0 for a captured call.
  device::u64 next(const gpu::CaptureState& capture) { return capture.id == 0 ? ++numbers_ : 0; }
  // The ticket of the next kernel, captured or not (kernels/gpu/ticket.h).
  device::u64 next_ticket() { return ++tickets_; }

  // Call it before enqueueing the kernel of this number on the stream. If a peer has withdrawn its buffers, takes the
  // announcement back and throws.
  void announce(device::u64 sequence, gpu::Stream stream);
  // The kernel was not enqueued, and its number is free again.
  void take_back(device::u64 sequence);

  // The driver has accepted the call of this number: the call will end, or be stopped.
  void enqueued(device::u64 sequence) { enqueued_ = sequence; }
  // The number of the last call that the driver has accepted.
  device::u64 last_enqueued() const { return enqueued_; }

 private:
  const DevicePeer& peer(Rank rank) const { return membership_.on_device->peers[static_cast<std::size_t>(rank)]; }
  void take_stream_for(device::u64 sequence, gpu::Stream stream) const;

  Membership& membership_;
  CallsInFlight& in_flight_;
  const BufferWithdrawal& withdrawal_;
  bool shares_process_ = false;  // another rank is in this process
  device::u64 numbers_ = 0;      // given out
  device::u64 enqueued_ = 0;
  device::u64 tickets_ = 0;
};

}  // namespace sccl::runtime
