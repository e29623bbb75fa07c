#include "runtime/gpu/launch/kernel_sequence.h"

#include <algorithm>

#include "base/error.h"

namespace sccl::runtime {

KernelSequence::KernelSequence(Membership& membership, CallsInFlight& in_flight, const BufferWithdrawal& withdrawal)
    : membership_(membership), in_flight_(in_flight), withdrawal_(withdrawal) {
  const auto& peers = membership_.on_device->peers;
  const auto& own = peer(membership_.rank).neighbour;
  shares_process_ = std::any_of(peers.begin(), peers.end(),
                                [&](const DevicePeer& other) { return other.neighbour && other.neighbour != own; });
}

// The store pairs with NeighbourWords::idle, which a withdrawing peer calls: either the peer sees this number, or this
// rank sees that the peer has withdrawn.
void KernelSequence::announce(device::u64 sequence, gpu::Stream stream) {
  peer(membership_.rank).words->launched.store(sequence, std::memory_order_seq_cst);
  in_flight_.launched(sequence);
  try {
    withdrawal_.refuse_after_withdrawal();
  } catch (const Error&) {
    take_back(sequence);
    throw;
  }
  if (shares_process_) take_stream_for(sequence, stream);
}

// If another rank's kernel is before this kernel on the stream, that rank learns which kernel follows.
void KernelSequence::take_stream_for(device::u64 sequence, gpu::Stream stream) const {
  const std::shared_ptr<DeviceNeighbour>& own = peer(membership_.rank).neighbour;
  const gpu::Device& device = membership_.on_device->device;
  const StreamUse before = take_stream(device.context, gpu::identity_of(*device.driver, stream), {own, sequence});
  for (Rank rank = 0; before.by && before.by != own && rank < membership_.ranks; ++rank)
    if (peer(rank).neighbour == before.by) before.by->is_followed_by({membership_.rank, before.kernel, sequence});
}

void KernelSequence::take_back(device::u64 sequence) {
  numbers_ = sequence - 1;
  peer(membership_.rank).words->launched.store(numbers_, std::memory_order_seq_cst);
  in_flight_.launched(numbers_);
}

}  // namespace sccl::runtime
