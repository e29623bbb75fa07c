// One kernel of a communicator runs at a time: kernels share lanes, scratch memory and counters. Streams and events
// ensure this for the kernels that the host enqueues, but not for a graph that is replayed beside another call. So
// every block takes the ticket of its launch before it touches anything. It gets the ticket if no launch holds one, or
// if a block of the same launch holds it. Otherwise the kernel ends, and all ranks are told to end.
//
//   running = ticket << 16 | blocks that have begun        0 again when the last block has ended
#pragma once

#include "kernels/gpu/arguments.h"
#include "kernels/gpu/target.h"

namespace sccl::device::gpu {

inline constexpr u32 kBlocksOfTicketBits = 16;

// Called by a block's leader. False: another kernel runs.
inline bool take_ticket(Control* control, u64 ticket, u32 blocks) {
  const u64 first = ticket << kBlocksOfTicketBits | 1;
  u64 seen = 0;
  for (;;) {
    const u64 found = compare_swap_device(&control->running, seen, seen == 0 ? first : seen + 1);
    if (found == seen) return true;
    const u64 begun = found & ((1u << kBlocksOfTicketBits) - 1);
    if (found != 0 && (found >> kBlocksOfTicketBits != ticket || begun >= blocks)) return false;
    seen = found;
  }
}

// Called by the last block, when nothing of the kernel is used any more. `finished`: calls, this one included. The next
// kernel reads the count, and all that this kernel has written, once it has the ticket: take_ticket() acquires.
inline void give_ticket_back(Control* control, u64 finished) {
  store_relaxed_system(&control->finished_calls, finished);
  fence_device();
  store_relaxed_system(&control->running, 0);
}

}  // namespace sccl::device::gpu
