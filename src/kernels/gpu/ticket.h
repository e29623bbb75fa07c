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

// Called by a block's leader. False: another kernel runs. However many blocks begin at a time, each needs two atomics
// at most: the word of a ticket that this launch holds stays until all its blocks have ended, so blocks only add to it.
// Beside a launch with the same ticket, a graph that is replayed beside itself, the count may be wrong afterwards; all
// ranks are told to end then, and no later kernel is of use.
inline bool take_ticket(Control* control, u64 ticket, u32 blocks) {
  const u64 found = compare_swap_device(&control->running, 0, ticket << kBlocksOfTicketBits | 1);
  if (found == 0) return true;
  if (found >> kBlocksOfTicketBits != ticket) return false;
  const u64 seen = fetch_add_device(&control->running, 1);
  if (seen >> kBlocksOfTicketBits == ticket) return (seen & ((1u << kBlocksOfTicketBits) - 1)) < blocks;
  fetch_add_device(&control->running, ~0ull);
  return false;
}

// Called by the last block, when nothing of the kernel is used any more. `finished`: calls, this one included. The next
// kernel reads the count, and all that this kernel has written, once it has the ticket: take_ticket() acquires.
inline void give_ticket_back(Control* control, u64 finished) {
  store_relaxed_system(&control->finished_calls, finished);
  fence_device();
  store_relaxed_system(&control->running, 0);
}

}  // namespace sccl::device::gpu
