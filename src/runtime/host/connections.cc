#include "runtime/host/connections.h"

#include "base/error.h"
#include "runtime/program/connections.h"
#include "runtime/transport/shm/shm_transport.h"

namespace sccl::runtime {

HostConnections::HostConnections(const Membership& membership) : membership_(membership) {
  const int ranks = membership.ranks;
  const int kinds = MemoryLayout::ring_kinds(ranks);
  transports_.push_back(
      std::make_unique<ShmTransport>(membership.layout, membership.peers, membership.rank, membership.control.bells()));
  if (membership.between_hosts.net) {
    auto net = std::make_unique<NetTransport>(NetTransport::Setup{*membership.between_hosts.net,
                                                                  membership.rank,
                                                                  &membership.layout,
                                                                  &membership.control.bells().own(),
                                                                  membership.peer(membership.rank).segment->data(),
                                                                  link_shape_of(membership.layout, ranks),
                                                                  {},
                                                                  &membership.control.members().own().sent});
    between_hosts_ = net.get();
    transports_.push_back(std::move(net));
  }
  input_shifts_.resize(static_cast<std::size_t>(ranks));
  output_shifts_.resize(static_cast<std::size_t>(ranks));
  ends_.resize(static_cast<std::size_t>(connection_count(kinds, ranks)));
  for (Rank peer = 0; peer < ranks; ++peer) {
    HostTransport& transport = transport_to(peer);
    for (int kind = 0; kind < kinds; ++kind)
      for (const schedule::Direction direction : {schedule::Direction::outgoing, schedule::Direction::incoming})
        transport.connect({direction, peer, kind},
                          ends_[static_cast<std::size_t>(connection_index(kind, direction, peer, ranks))]);
  }
}

HostTransport& HostConnections::transport_to(Rank peer) const {
  for (const auto& transport : transports_)
    if (transport->reaches(peer)) return *transport;
  fail(ErrorCode::internal_error, "rank {}: no transport reaches rank {}: report this", membership_.rank, peer);
}

std::span<kernels::HostConnection> HostConnections::of(MemoryLayout::RingKind kind) {
  const int first = connection_index(static_cast<int>(kind), schedule::Direction::outgoing, 0, membership_.ranks);
  return std::span(ends_).subspan(static_cast<std::size_t>(first));
}

kernels::HostConnection& HostConnections::incoming(Rank peer) {
  constexpr auto kKind = static_cast<int>(MemoryLayout::RingKind::collective);
  return ends_[static_cast<std::size_t>(
      connection_index(kKind, schedule::Direction::incoming, peer, membership_.ranks))];
}

void HostConnections::map_buffers(const MappedBuffers& mapped) {
  maps_buffers_ = true;
  for (Rank rank = 0; rank < membership_.ranks; ++rank) {
    const MappedBuffers::Shifts& shifts = mapped.shifts(rank);
    incoming(rank).maps_buffers = true;
    input_shifts_[static_cast<std::size_t>(rank)] = shifts.input;
    output_shifts_[static_cast<std::size_t>(rank)] = shifts.output;
  }
}

void HostConnections::unmap_buffers() {
  maps_buffers_ = false;
  for (Rank rank = 0; rank < membership_.ranks; ++rank)
    incoming(rank).maps_buffers = membership_.peer(rank).shares_address_space();
}

}  // namespace sccl::runtime
