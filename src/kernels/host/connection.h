// An end of a connection on the host, where connections differ in depth and a peer that sleeps has to be woken.
#pragma once

#include "kernels/device/connection.h"
#include "platform/host/doorbell.h"

namespace sccl::kernels {

class SharedSlots;

struct HostConnection : device::Connection {
  host::Doorbell* peer_bell;  // rung after something the peer may wait for
  int peer_process;           // whose memory is reached through the system
  SharedSlots* shared_slots;  // of an outgoing connection: which peers still read its slots; null: slots are not shared
  device::u32 depth;          // slots; a power of two
  device::u32 inline_lines;   // at which a message may begin; a power of two
  device::u8* inline_messages;  // of these lines, and those of the longest message more
  device::u64* stale_lines;     // the sender's: a bit for each of these lines, as inline_messages.h says
};

}  // namespace sccl::kernels
