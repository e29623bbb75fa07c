// An end of a connection on a device: all connections have the same depth, and some links keep lines whole
// (kernels/device/lines.h).
#pragma once

#include "kernels/device/connection.h"

namespace sccl::device::gpu {

// Longer messages between devices of different hosts may have slots of their own.
inline constexpr u64 kMostShortBytes = 8 * 1024;

// Copied in pieces of 16 bytes.
struct alignas(16) DeviceConnection : Connection {
  u64* lines;  // kLineRingBytes of the receiver's memory; null where the link may cut lines
  u64 line_position;
  u64 line_seen_tail;
  u64 travels;     // not 0: to another host. A proxy sends the messages and must know their lengths
  u64 long_shift;  // from `payload` to the slots of long messages; 0: they have none of their own
};

}  // namespace sccl::device::gpu
