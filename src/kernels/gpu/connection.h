// An end of a connection on a device: all connections have the same depth, and some links keep lines whole
// (kernels/device/lines.h).
#pragma once

#include "kernels/device/connection.h"

namespace sccl::device::gpu {

struct DeviceConnection : Connection {
  u64* lines;  // kLineRingBytes of the receiver's memory; null where the link may cut lines
  u64 line_position;
  u64 line_seen_tail;
};

}  // namespace sccl::device::gpu
