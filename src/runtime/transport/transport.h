// A transport moves messages between two ranks. It is asked when connections are made, never while messages flow: it
// fills in the ends of connections, and the interpreter and kernels work on an end directly (kernels/device/protocol.h:
// has_room reserves, publish commits, arrived polls, consume releases).
//
// Every end is a ring of slots in memory that this process, or its device, reads and writes in place. Where the peer
// reaches the same memory, one ring serves both ends. Where it does not, each end has a ring of its own, and somebody
// (a progress thread of the transport) moves between the two what the protocol says: a published slot with its header
// from the sender's ring to the receiver's, and the receiver's tail back to the sender's.
#pragma once

#include <cstddef>

#include "kernels/gpu/connection.h"
#include "kernels/host/connection.h"
#include "runtime/control/members.h"
#include "schedule/program.h"

namespace sccl::runtime {

// One end of one connection, as this rank numbers its connections.
struct EndRequest {
  schedule::Direction direction = schedule::Direction::outgoing;
  Rank peer = 0;
  int kind = 0;     // which calls it serves: MemoryLayout::RingKind on the host, a kind of DeviceLayout on devices
  int channel = 0;  // on devices
};

// What an end can do beyond moving messages.
struct EndTraits {
  Locality locality = Locality::host;
  std::size_t longest_message_bytes = 0;  // of protocol `simple`
  bool shares_slots = false;              // one slot's payload may serve several receivers
  bool maps_buffers = false;              // the peer's buffers can be used at its own addresses
};

// `End`: of the host or of a device.
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
  // Both for peers that are reached only.
  virtual EndTraits traits(const EndRequest& request) const = 0;
  // Fills in everything but this end's progress. What it points to lives as long as the transport.
  virtual void connect(const EndRequest& request, End& end) = 0;
};

using HostTransport = Transport<kernels::HostConnection>;
using DeviceTransport = Transport<device::gpu::DeviceConnection>;

}  // namespace sccl::runtime
