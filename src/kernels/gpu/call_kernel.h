// The kernel: runs all lanes of one rank's call. A launch has so many blocks that those of all ranks of a device fit on
// it together; a block runs one lane of one channel, or takes turns with several.
//
// Everything that a call changes lies in device memory and is left as the next kernel wants it, so that a captured
// launch can be replayed without the host.
#pragma once

#include "kernels/gpu/block.h"
#include "kernels/gpu/move.h"
#include "kernels/gpu/one_sided_kernel.h"
#include "kernels/gpu/signal_kernel.h"
#include "kernels/gpu/target.h"

namespace sccl::device::gpu {

// A lane's LaneStates are reset by the last block to end, when nobody reads them any more.
inline void end_call(const CallArguments& arguments, BlockMemory& memory) {
  const u32 blocks = arguments.channels * arguments.blocks_per_channel;
  block_sync();
  if (thread_index() == 0)
    memory.words[0] = fetch_add_device(&arguments.control->arrived_blocks, 1) + 1 == blocks ? 1 : 0;
  block_sync();
  if (memory.words[0] == 0) return;
  const u32 lanes = arguments.channels * arguments.program.lane_count;
  SCCL_ROLLED for (u32 lane = thread_index(); lane < lanes; lane += thread_count()) arguments.lanes[lane] =
      LaneState{0, 0, 0, -1, 0};
  block_sync();
  if (thread_index() != 0) return;
  arguments.control->arrived_blocks = 0;
  tell_end(arguments.control, arguments.host, arguments.sequence);
}

// The host cuts tables that are too long for the kernel's parameters in the same way.
inline Chunk part_for(const CallArguments& arguments, const Chunk& chunk, u32 channel) {
  const u64 bytes = chunk.elements * arguments.call.element_bytes;
  const u32 parts = arguments.parts_by_chunk ? parts_of(arguments.split, bytes) : arguments.channels;
  return part_of(chunk, arguments.call.element_bytes, parts, channel);
}

inline void begin_call(const CallArguments& arguments, BlockMemory& memory) {
  const u32 channel = block_index() / arguments.blocks_per_channel;
  if (arguments.call.chunks == nullptr)
    SCCL_ROLLED for (u32 i = thread_index(); i < arguments.chunk_count; i += thread_count()) memory.chunks[i] =
        part_for(arguments, arguments.chunks[i], channel);
  if (thread_index() == 0) {
    memory.call = arguments.call;
    memory.program = arguments.program;
    memory.call.chunks =
        arguments.call.chunks == nullptr ? memory.chunks : arguments.call.chunks + channel * arguments.chunk_count;
    memory.call.scratch = arguments.call.scratch + channel * arguments.scratch_channel_bytes;
    if (arguments.scale_pointer != nullptr) {
      u64 bits = 0;
      SCCL_ROLLED for (u32 i = 0; i < arguments.call.element_bytes; ++i) bits |=
          static_cast<u64>(reinterpret_cast<const u8*>(arguments.scale_pointer)[i]) << (8 * i);
      memory.call.scale_bits = bits;
    }
    if (block_index() == 0) tell_begin(arguments.control, arguments.host);
  }
  block_sync();
}

template <class Mover>
inline void run_lanes(const CallArguments& arguments, BlockMemory& memory, u8* places) {
  const u32 channel = block_index() / arguments.blocks_per_channel;
  const u32 first = block_index() % arguments.blocks_per_channel;
  const u32 lane_count = arguments.program.lane_count;
  LaneState* const lanes = arguments.lanes + channel * lane_count;
  Block<Mover> block(arguments, memory, places, first + arguments.blocks_per_channel >= lane_count);
  Interpreter<Block<Mover>> interpreter(
      memory.program, memory.call, arguments.connections + channel * arguments.connections_per_channel, lanes, block);
  for (;;) {
    bool unfinished = false;
    SCCL_ROLLED for (u32 lane = first; lane < lane_count; lane += arguments.blocks_per_channel) {
      block.enter_lane(channel * lane_count + lane, lanes[lane]);
      Outcome outcome;
      do outcome = interpreter.step(lane);
      while (outcome == Outcome::progressed);
      if (outcome == Outcome::finished) continue;
      unfinished = true;
      if (outcome == Outcome::blocked) continue;
      if (thread_index() == 0)
        block.stop(outcome == Outcome::mismatch ? StopReason::mismatch : StopReason::unreachable,
                   lanes[lane].blocked_on_peer);
      return;
    }
    if (!unfinished || block.stopped()) return;
  }
}

template <class Mover>
inline void run_call(const CallArguments& arguments, BlockMemory& memory, u8* places) {
  begin_call(arguments, memory);
  run_lanes<Mover>(arguments, memory, places);
  end_call(arguments, memory);
}

}  // namespace sccl::device::gpu

#if defined(SCCL_MOST_THREADS) && !SCCL_GPU_CUDA
#pragma clang force_cuda_host_device end
#endif

// Parameters are read where they lie, where the compiler knows how.
#if SCCL_GPU_CUDA && __CUDACC_VER_MAJOR__ >= 12
#define SCCL_GPU_PARAMETER const __grid_constant__
#else
#define SCCL_GPU_PARAMETER const
#endif

// One instance, under a name that needs no mangling.
#define SCCL_GPU_KERNEL(name, ...)                                                                    \
  extern "C" SCCL_KERNEL void SCCL_MOST_THREADS(sccl::device::gpu::kMostThreads)                      \
      name(SCCL_GPU_PARAMETER sccl::device::gpu::CallArguments a) {                                   \
    SCCL_SHARED sccl::device::gpu::BlockMemory memory;                                                \
    extern SCCL_SHARED sccl::device::u64 places[];                                                    \
    sccl::device::gpu::run_call<__VA_ARGS__>(a, memory, reinterpret_cast<sccl::device::u8*>(places)); \
  }

#define SCCL_GPU_ONE_SIDED_KERNEL(name)                                          \
  extern "C" SCCL_KERNEL void SCCL_MOST_THREADS(sccl::device::gpu::kMostThreads) \
      name(SCCL_GPU_PARAMETER sccl::device::gpu::OneSidedArguments a) {          \
    SCCL_SHARED sccl::device::u32 last;                                          \
    sccl::device::gpu::run_one_sided(a, last);                                   \
  }
