#include "runtime/gpu/resources/kernel_tables.h"

#include <vector>

#include "runtime/gpu/resources/private_memory.h"
#include "runtime/program/connections.h"
#include "runtime/transport/p2p/peer_memory_transport.h"
#include "runtime/transport/proxy/device_proxy.h"

namespace sccl::runtime {

using device::gpu::Control;
using device::gpu::DeviceConnection;

KernelTables::KernelTables(const DeviceMembership& membership, Rank rank)
    : ranks_(static_cast<int>(membership.peers.size())) {
  std::vector<Control*> controls;
  for (const DevicePeer& peer : membership.peers)
    controls.push_back(peer.memory ? reinterpret_cast<Control*>(peer.memory->address()) : nullptr);
  const std::size_t bytes = controls.size() * sizeof controls[0];
  controls_ = allocate_private(membership.device, bytes);
  controls_->write(0, controls.data(), bytes);
  counters_ = allocate_private(membership.device, 2 * static_cast<std::size_t>(ranks_) * MemoryLayout::kSignals *
                                                      MemoryLayout::kContexts * sizeof(device::u64));
  connect(membership, rank);
}

void KernelTables::connect(const DeviceMembership& membership, Rank rank) {
  const DeviceLayout& layout = membership.layout;
  connections_per_channel_ = static_cast<device::u32>(connection_count(DeviceLayout::kKinds, ranks_));
  std::vector<DeviceConnection> table(connections_per_channel_ * static_cast<std::size_t>(layout.channels()));
  PeerMemoryTransport transport(membership, rank);
  for (int channel = 0; channel < layout.channels(); ++channel)
    for (int kind = 0; kind < DeviceLayout::kKinds; ++kind)
      for (Rank peer = 0; peer < ranks_; ++peer)
        for (const auto direction : {schedule::Direction::outgoing, schedule::Direction::incoming}) {
          const auto index = static_cast<std::size_t>(connection_index(kind, direction, peer, ranks_));
          const EndRequest request{direction, peer, kind, channel};
          DeviceConnection& end = table[static_cast<std::size_t>(channel) * connections_per_channel_ + index];
          if (membership.proxy && membership.proxy->reaches(peer))
            membership.proxy->connect(request, end);
          else
            transport.connect(request, end);
        }
  connections_ = allocate_private(membership.device, table.size() * sizeof table[0]);
  connections_->write(0, table.data(), table.size() * sizeof table[0]);
}

Control* const* KernelTables::peer_controls() const { return reinterpret_cast<Control* const*>(controls_->address()); }

DeviceConnection* KernelTables::connections() const {
  return reinterpret_cast<DeviceConnection*>(connections_->address());
}

device::u64* KernelTables::counter(int which, Rank peer, int signal, int context) const {
  const int index = ((which * ranks_ + peer) * MemoryLayout::kSignals + signal) * MemoryLayout::kContexts + context;
  return reinterpret_cast<device::u64*>(counters_->address()) + index;
}

}  // namespace sccl::runtime
