// The kernel of one-sided calls, where kernels may wait (otherwise signal_kernel.h): writes data into a peer's window,
// sends signals, waits for signals.
//
//   sender                                              receiver
//   all blocks write the data, then a fence             the leader spins: arrived >= used + count
//   the last block:  arrived = ++sent  -- release -->   load-acquire; used += count
//
// `arrived` lies in memory of the receiver; there is one counter for each sender, signal and context. Only kernels of
// that sender write the counter, one after another, so no atomic addition is needed. `sent` and `used` lie in the
// memory of the rank that counts them, so that a captured launch can be replayed.
#pragma once

#include "kernels/gpu/reduce_copy.h"
#include "kernels/gpu/stop_signs.h"
#include "kernels/gpu/target.h"
#include "kernels/gpu/ticket.h"

namespace sccl::device::gpu {

// The share of each block is a multiple of 16 bytes.
inline void put_share(const OneSidedArguments& arguments) {
  const u64 units = (arguments.bytes + 15) / 16;
  const u64 each = (units + arguments.blocks - 1) / arguments.blocks * 16;
  const u64 begin = each * block_index();
  if (begin >= arguments.bytes) return;
  const Source source{arguments.from + begin, 0};
  u8* const sink = arguments.to + begin;
  const u64 bytes = arguments.bytes - begin < each ? arguments.bytes - begin : each;
  copy_bytes(Work{&source, 1, &sink, 1, bytes, 1, thread_index(), thread_count()}, bytes);
}

// False: the kernel must end before all signals have come.
inline bool wait_for_signals(const OneSidedArguments& arguments) {
  StopSigns signs;
  signs.begin();
  SCCL_ROLLED for (u32 i = 0; i < arguments.wait_count; ++i) {
    const AwaitedSignal& wait = arguments.waits[i];
    while (load_relaxed_system(wait.arrived) - *wait.used < wait.count) {
      if (signs.look(arguments, wait.peer)) return false;
      pause();
    }
  }
  fence_system();  // whatever precedes the signals is visible to whatever follows this kernel
  SCCL_ROLLED for (u32 i = 0; i < arguments.wait_count; ++i) * arguments.waits[i].used += arguments.waits[i].count;
  return true;
}

inline constexpr u32 kOverlap = 2;

// `last` lies in the block's shared memory.
inline void run_one_sided(const OneSidedArguments& arguments, u32& last) {
  const bool leader = thread_index() == 0;
  if (leader) last = take_ticket(arguments.control, arguments.ticket, arguments.blocks) ? 0 : kOverlap;
  block_sync();
  if (last == kOverlap) {
    if (leader) tell_host(arguments.host, StopReason::overlap, arguments.rank);
    return;
  }
  // The leader of each block reads the count: any of them may be the last.
  const u64 count = leader ? load_relaxed_system(&arguments.control->finished_calls) + 1 : 0;
  if (leader && block_index() == 0) tell_begin(arguments.host, count);
  put_share(arguments);
  block_sync();
  if (leader) {
    fence_system();
    last = fetch_add_device(&arguments.control->arrived_blocks, 1) + 1 == arguments.blocks ? 1 : 0;
  }
  block_sync();
  if (last == 0 || !leader) return;
  if (arguments.arrived != nullptr) store_release_system(arguments.arrived, ++*arguments.sent);
  wait_for_signals(arguments);
  arguments.control->arrived_blocks = 0;
  give_ticket_back(arguments.control, count);
  tell_end(arguments.host, arguments.sequence, count);
}

}  // namespace sccl::device::gpu
