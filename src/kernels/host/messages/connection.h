// An end of a connection on the host, where connections differ in depth and a sleeping peer must be woken.
#pragma once

#include "kernels/device/connection.h"
#include "platform/host/doorbell.h"

namespace sccl::kernels {

class Landing;
class SharedSlots;

struct HostConnection : device::Connection {
  host::Doorbell* peer_bell;    // rung after a change that the peer may wait for
  int peer_process;             // whose memory the system copies from and to
  SharedSlots* shared_slots;    // for an outgoing connection: which peers still read its slots; null: no slot is shared
  device::u32 depth;            // slots for long messages; a power of two
  device::u32 short_bytes;      // of slots for short messages; 0: there are none (slot_places.h)
  device::u32 inline_lines;     // lines at which a message may begin; a power of two
  device::u8* inline_messages;  // inline_lines lines, then the lines of the longest message
  device::u64* stale_lines;     // sender only: one bit for each of the inline_lines, see inline_messages.h
  bool takes_from_buffers;      // to another host, by an engine that sends a long payload from where it lies
  Landing* landing;             // from another host: where payloads of the call in progress belong; else null
};

}  // namespace sccl::kernels
