#include "runtime/transport/p2p/peer_memory_transport.h"

namespace sccl::runtime {
namespace {

template <typename T>
T* at(gpu::Address address) {
  return reinterpret_cast<T*>(address);
}

}  // namespace

bool PeerMemoryTransport::reaches(Rank other) const { return peer(other).memory || peer(other).staged; }

EndTraits PeerMemoryTransport::traits(const EndRequest& request) const {
  return {peer(request.peer).same_process ? Locality::process : Locality::host, devices_.layout.slot_bytes(), false,
          devices_.direct};
}

void PeerMemoryTransport::connect(const EndRequest& request, device::gpu::DeviceConnection& end) {
  const bool sends = request.direction == schedule::Direction::outgoing;
  const Rank receiver = sends ? request.peer : rank_;
  const Rank sender = sends ? rank_ : request.peer;
  const auto place = devices_.ring(receiver, sender, request.channel, request.kind);
  end = {};
  end.ring = at<device::Ring>(place.ring);
  end.payload = at<device::u8>(place.payload);
  end.lines = at<device::u64>(place.lines);
  end.slot_bytes = devices_.layout.slot_bytes();
  end.peer = request.peer;
  end.maps_buffers = true;  // read only by programs that use buffers in place
}

}  // namespace sccl::runtime
