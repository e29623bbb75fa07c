// Both sides of a link cut the lines of a ring into pieces. A piece never crosses the end of the ring.
#pragma once

#include <algorithm>

#include "kernels/host/target.h"
#include "runtime/transport/net/link/rings.h"

namespace sccl::runtime {

inline device::u64 tail_of(const device::Tail& tail) { return kernels::HostTarget::load_acquire(&tail.value); }

// The last possible end of a piece that begins at `position`: messages do not wrap.
inline device::u64 end_of_round(device::u64 position, device::u32 lines) { return (position / lines + 1) * lines; }

// The number of lines that are sent for a piece. A piece that reaches the end of the ring includes all lines behind it.
inline device::u64 lines_in_memory(device::u64 begin, device::u64 end, const RemoteRings::One& ring) {
  return end - begin + (end % ring.inline_lines == 0 ? ring.tail_lines : 0);
}

}  // namespace sccl::runtime
