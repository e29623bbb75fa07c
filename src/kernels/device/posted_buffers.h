// Where the buffers lie that a peer has posted (OpKind::post), as this process sees them.
#pragma once

#include "kernels/device/operation.h"
#include "kernels/device/protocol.h"

namespace sccl::device {

// Once the descriptor has arrived, and a fence has followed the load of its flag.
template <class Target>
inline u64 remote_address(const Call& call, typename Target::Connection& connection, const Access& access, u64 slice) {
  const SlotHeader& header = Slots<Target>::header(connection);
  const bool input = access.buffer == Buffer::input;
  const u64 posted = input ? header.input_address : header.output_address;
  const u64* const shifts = input ? call.input_shifts : call.output_shifts;
  return posted + (shifts == nullptr ? 0 : shifts[connection.peer]) + offset_bytes(call, access, slice);
}

}  // namespace sccl::device
