// How lines of a ring travel: in pieces that do not run over the ring's end. For both sides of a link.
#pragma once

#include <algorithm>

#include "kernels/host/target.h"
#include "runtime/transport/net/link/rings.h"

namespace sccl::runtime {

inline device::u64 tail_of(const device::Tail& tail) { return kernels::HostTarget::load_acquire(&tail.value); }

// Where the piece of lines that begins at `position` ends at the latest: messages do not wrap.
inline device::u64 end_of_round(device::u64 position, device::u32 lines) { return (position / lines + 1) * lines; }

// Lines that lie in memory for a piece: at the end of the ring all those behind it come, too.
inline device::u64 lines_in_memory(device::u64 begin, device::u64 end, const RemoteRings::One& ring) {
  return end - begin + (end % ring.inline_lines == 0 ? ring.tail_lines : 0);
}

}  // namespace sccl::runtime
