#include "runtime/gpu/device_membership.h"

#include <algorithm>

namespace sccl::runtime {

DeviceMembership::RingPlace DeviceMembership::ring(Rank receiver, Rank sender, int channel, int kind) const {
  const DevicePeer& owner = peers[static_cast<std::size_t>(receiver)];
  if (!paths.staged(receiver, sender)) {
    const gpu::Address base = owner.memory->address();
    return {layout.ring(base, channel, kind, sender), layout.payload(base, channel, kind, sender)};
  }
  const std::vector<Rank> sources = paths.staged_sources(receiver);
  const auto place = static_cast<Rank>(std::find(sources.begin(), sources.end(), sender) - sources.begin());
  const DeviceLayout staged(static_cast<int>(sources.size()), layout.channels(), layout.slot_bytes());
  return {staged.ring(owner.staged_address, channel, kind, place), staged.payload(owner.staged_address, channel, kind, place)};
}

}  // namespace sccl::runtime
