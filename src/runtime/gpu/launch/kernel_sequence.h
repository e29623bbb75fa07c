// The numbers of a rank's calls on its device, and the announcement of a number to those who must know of the call
// before it can begin: peers that may take their buffers back, the watch, and ranks that use the same stream.
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
  // All must outlive it.
  KernelSequence(Membership& membership, CallsInFlight& in_flight, const BufferWithdrawal& withdrawal);

  // The number of the next call; 0 for one that is captured.
  device::u64 next(const gpu::CaptureState& capture) { return capture.id == 0 ? ++numbers_ : 0; }
  // The ticket of the next kernel, captured or not (kernels/gpu/ticket.h).
  device::u64 next_ticket() { return ++tickets_; }

  // The kernel of this number is about to be enqueued on the stream. Throws, with the announcement taken back, when a
  // peer has withdrawn its buffers.
  void announce(device::u64 sequence, gpu::Stream stream);
  // It was not enqueued, and its number is free again.
  void take_back(device::u64 sequence);

  // The call of this number is with the driver: it will end, or be stopped.
  void enqueued(device::u64 sequence) { enqueued_ = sequence; }
  // Of the last such call.
  device::u64 last_enqueued() const { return enqueued_; }

 private:
  const DevicePeer& peer(Rank rank) const { return membership_.on_device->peers[static_cast<std::size_t>(rank)]; }
  void take_stream_for(device::u64 sequence, gpu::Stream stream) const;

  Membership& membership_;
  CallsInFlight& in_flight_;
  const BufferWithdrawal& withdrawal_;
  bool shares_process_ = false;  // with another rank
  device::u64 numbers_ = 0;      // given out
  device::u64 enqueued_ = 0;
  device::u64 tickets_ = 0;
};

}  // namespace sccl::runtime
