#include "runtime/transport/p2p/device_membership.h"

#include <algorithm>

namespace sccl::runtime {

DeviceMembership::Inbox DeviceMembership::inbox(Rank receiver, Rank sender) const {
  const DevicePeer& owner = peers[static_cast<std::size_t>(receiver)];
  if (!paths.staged(receiver, sender)) return {layout, owner.memory->address(), sender};
  const std::vector<Rank> sources = paths.staged_sources(receiver);
  const auto place = static_cast<Rank>(std::find(sources.begin(), sources.end(), sender) - sources.begin());
  return {DeviceLayout(static_cast<int>(sources.size()), layout.channels(), layout.slot_bytes()), owner.staged_address,
          place};
}

DeviceMembership::RingPlace DeviceMembership::ring(Rank receiver, Rank sender, int channel, int kind) const {
  const Inbox place = inbox(receiver, sender);
  return {place.layout.ring(place.base, channel, kind, place.sender),
          place.layout.payload(place.base, channel, kind, place.sender),
          place.layout.lines(place.base, channel, kind, place.sender)};
}

gpu::Address DeviceMembership::signal(Rank receiver, Rank sender, int signal, int context) const {
  const Inbox place = inbox(receiver, sender);
  return place.layout.signal(place.base, place.sender, signal, context);
}

}  // namespace sccl::runtime
