// Messages through slots in shared memory, between ranks of one host. The ring of a connection lies in the receiver's
// memory, which every rank of the host has mapped.
#pragma once

#include <span>
#include <vector>

#include "kernels/host/messages/shared_slots.h"
#include "runtime/control/control_plane.h"
#include "runtime/transport/shm/memory_layout.h"
#include "runtime/transport/shm/peer.h"
#include "runtime/transport/transport.h"

namespace sccl::runtime {

class ShmTransport final : public HostTransport {
 public:
  // All arguments must outlive this object.
  ShmTransport(const MemoryLayout& layout, std::span<const Peer> peers, Rank rank, const Bells& bells);

  const char* name() const override { return "shm"; }
  bool reaches(Rank peer) const override { return peers_[static_cast<std::size_t>(peer)].segment != nullptr; }
  EndTraits traits(const EndRequest& request) const override;
  void connect(const EndRequest& request, kernels::HostConnection& end) override;

 private:
  const MemoryLayout& layout_;
  std::span<const Peer> peers_;
  Rank rank_;
  Bells bells_;
  // For outgoing ends, by ring kind and peer.
  std::vector<kernels::SharedSlots> shared_slots_;
  std::vector<std::vector<device::u64>> stale_lines_;
};

}  // namespace sccl::runtime
