// The connections of a rank on the host, made once by its transports. A program's connection numbers are indices into
// the table of its ring kind (program/connections.h).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/membership/membership.h"
#include "runtime/transport/mapped/mapped_buffers.h"
#include "runtime/transport/net/net_transport.h"
#include "runtime/transport/transport.h"

namespace sccl::runtime {

class HostConnections {
 public:
  // `membership` must outlive this object. Throws internal_error for a peer that no transport reaches.
  explicit HostConnections(const Membership& membership);

  // The connections in the order in which programs of this ring kind number them.
  std::span<kernels::HostConnection> of(MemoryLayout::RingKind kind);
  std::span<kernels::HostConnection> all() { return ends_; }

  // The transport to the ranks of other hosts; null if there are none.
  NetTransport* between_hosts() const { return between_hosts_; }

  // From now on the connections use peers' buffers at their mapped addresses.
  void map_buffers(const MappedBuffers& mapped);
  void unmap_buffers();
  bool maps_buffers() const { return maps_buffers_; }
  // The address shifts of the peers' buffers, by rank; null if no buffers are mapped.
  const device::u64* input_shifts() const { return maps_buffers_ ? input_shifts_.data() : nullptr; }
  const device::u64* output_shifts() const { return maps_buffers_ ? output_shifts_.data() : nullptr; }
  // Whether every peer's buffers are used in place, and not through the system.
  bool sees_peers_buffers() const { return maps_buffers_ || membership_.reach == Reach::shared_space; }

 private:
  HostTransport& transport_to(Rank peer) const;
  kernels::HostConnection& incoming(Rank peer);

  const Membership& membership_;
  // The ends stay where they are. They outlive the transports: the thread of a transport reads them until it ends.
  std::vector<kernels::HostConnection> ends_;
  std::vector<std::unique_ptr<HostTransport>> transports_;  // the first that reaches a peer serves it
  NetTransport* between_hosts_ = nullptr;                   // of transports_
  bool maps_buffers_ = false;
  std::vector<device::u64> input_shifts_, output_shifts_;  // by rank
};

}  // namespace sccl::runtime
