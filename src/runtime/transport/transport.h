// A transport moves messages between two ranks. A transport is called only while connections are made, never while
// messages flow: connect() fills in an end of a connection, and the interpreter and kernels work on the end directly
// (kernels/device/protocol.h: has_room reserves, publish commits, arrived polls, consume releases).
//
// Every end is a ring of slots in memory that this process, or its device, reads and writes in place. If the peer
// reaches the same memory, one ring serves both ends. Otherwise each end has a separate ring, and a progress thread of
// the transport copies between the rings as the protocol requires: each published slot with its header from the
// sender's ring to the receiver's ring, and the receiver's tail back to the sender's ring.
#pragma once

#include <cstddef>

#include "kernels/gpu/connection.h"
#include "kernels/host/messages/connection.h"
#include "runtime/control/members.h"
#include "schedule/program.h"

namespace sccl::runtime {

// Identifies one end of one connection of this rank.
struct EndRequest {
  schedule::Direction direction = schedule::Direction::outgoing;
  Rank peer = 0;
  int kind = 0;     // ring kind: MemoryLayout::RingKind on the host, a kind of DeviceLayout on devices
  int channel = 0;  // devices only
};

// The properties of an end.
struct EndTraits {
  Locality locality = Locality::host;
  std::size_t longest_message_bytes = 0;  // of protocol `simple`
  bool shares_slots = false;              // one slot's payload may serve several receivers
  bool maps_buffers = false;              // the peer's buffers can be used in place, at the peer's addresses
};

// `End`: an end on the host or on a device.
template <class End>
class Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  // For log lines.
  virtual const char* name() const = 0;
  virtual bool reaches(Rank peer) const = 0;
  // traits() and connect() require reaches(peer).
  virtual EndTraits traits(const EndRequest& request) const = 0;
  // Fills in everything except this end's progress. The pointers are valid as long as the transport exists.
  virtual void connect(const EndRequest& request, End& end) = 0;
};

using HostTransport = Transport<kernels::HostConnection>;
using DeviceTransport = Transport<device::gpu::DeviceConnection>;

}  // namespace sccl::runtime
