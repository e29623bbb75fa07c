#include "runtime/transport/shm/shm_transport.h"

namespace sccl::runtime {

ShmTransport::ShmTransport(const MemoryLayout& layout, std::span<const Peer> peers, Rank rank, const Bells& bells)
    : layout_(layout), peers_(peers), rank_(rank), bells_(bells) {
  const std::size_t ends =
      peers.size() * static_cast<std::size_t>(MemoryLayout::ring_kinds(static_cast<int>(peers.size())));
  shared_slots_.resize(ends);
  stale_lines_.resize(ends);
}

EndTraits ShmTransport::traits(const EndRequest& request) const {
  const Peer& peer = peers_[static_cast<std::size_t>(request.peer)];
  return {peer.locality, layout_.slot_bytes(static_cast<MemoryLayout::RingKind>(request.kind)), true,
          peer.shares_address_space()};
}

void ShmTransport::connect(const EndRequest& request, kernels::HostConnection& end) {
  const auto kind = static_cast<MemoryLayout::RingKind>(request.kind);
  const Peer& peer = peers_[static_cast<std::size_t>(request.peer)];
  const bool sends = request.direction == schedule::Direction::outgoing;
  std::byte* const base = (sends ? peer : peers_[static_cast<std::size_t>(rank_)]).segment->data();
  const Rank source = sends ? rank_ : request.peer;
  end.ring = &layout_.ring(base, kind, source);
  end.payload = layout_.payload(base, kind, source);
  end.slot_bytes = layout_.slot_bytes(kind);
  end.depth = MemoryLayout::depth(kind);
  end.short_bytes = 0;
  end.inline_lines = MemoryLayout::inline_lines(kind);
  end.inline_messages = layout_.inline_messages(base, kind, source);
  if (sends) {
    const std::size_t index =
        static_cast<std::size_t>(request.kind) * peers_.size() + static_cast<std::size_t>(request.peer);
    end.shared_slots = &shared_slots_[index];
    stale_lines_[index].assign(end.inline_lines / 64, 0);
    end.stale_lines = stale_lines_[index].data();
  }
  end.peer_bell = &bells_.of(request.peer);
  end.peer = request.peer;
  end.peer_process = peer.process;
  end.maps_buffers = peer.shares_address_space();
}

}  // namespace sccl::runtime
