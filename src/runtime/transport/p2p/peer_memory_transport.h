// Messages between devices. The slots lie in the receiver's device memory, which the sender's device has mapped. If the
// two devices do not reach each other, the slots lie in pinned host memory of the receiver (transport/staged).
#pragma once

#include "runtime/transport/p2p/device_membership.h"
#include "runtime/transport/transport.h"

namespace sccl::runtime {

class PeerMemoryTransport final : public DeviceTransport {
 public:
  // `devices` must outlive it.
  PeerMemoryTransport(const DeviceMembership& devices, Rank rank) : devices_(devices), rank_(rank) {}

  const char* name() const override { return "p2p"; }
  bool reaches(Rank peer) const override;
  EndTraits traits(const EndRequest& request) const override;
  void connect(const EndRequest& request, device::gpu::DeviceConnection& end) override;

 private:
  const DevicePeer& peer(Rank of) const { return devices_.peers[static_cast<std::size_t>(of)]; }

  const DeviceMembership& devices_;
  Rank rank_;
};

}  // namespace sccl::runtime
