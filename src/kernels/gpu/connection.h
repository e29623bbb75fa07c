// An end of a connection on a device: calls of short messages divide its memory into more slots, and some links keep
// lines whole (kernels/device/lines.h).
#pragma once

#include "kernels/device/connection.h"

namespace sccl::device::gpu {

// Longer messages between devices of different hosts may have slots of their own.
inline constexpr u64 kMostShortBytes = 8 * 1024;

// Call::slot_shift for messages of at most so many bytes: as many slots as hold them.
constexpr u32 slot_shift_for(u64 message_bytes, u64 slot_bytes) {
  u32 shift = 0;
  while (kSlotCount << shift < kShortSlotCount && message_bytes <= slot_bytes >> (shift + 1)) ++shift;
  return shift;
}

// Copied in pieces of 16 bytes.
struct alignas(16) DeviceConnection : Connection {
  u64* lines;  // kLineRingBytes of the receiver's memory; null where the link may cut lines
  u64 line_position;
  u64 line_seen_tail;
  u64 travels;     // not 0: to another host. A proxy sends the messages and must know their lengths
  u64 long_shift;  // from `payload` to the slots of long messages; 0: they have none of their own
  u64 slot_shift;  // sender: of the call that sent the last message
};

}  // namespace sccl::device::gpu
