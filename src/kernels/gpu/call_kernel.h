// The kernel that runs all lanes of one rank's call. A launch has few enough blocks that the blocks of all ranks of a
// device fit on the device together. A block runs one lane of one channel, or several lanes in turn.
//
// Everything that a call changes lies in device memory and is left ready for the next kernel, so that a captured launch
// can be replayed without the host.
#pragma once

// Must come first: what is included after it becomes device functions, too.
// clang-format off
#include "kernels/gpu/target.h"
// clang-format on

#include "kernels/gpu/block.h"
#include "kernels/gpu/move.h"
#include "kernels/gpu/one_sided_kernel.h"
#include "kernels/gpu/reduce_any.h"
#include "kernels/gpu/signal_kernel.h"
#include "kernels/gpu/ticket.h"

namespace sccl::device::gpu {

// The host computes tables that are too long for the kernel's parameters in the same way.
inline Chunk part_for(const CallArguments& arguments, const Chunk& chunk, u32 channel) {
  const u64 bytes = chunk.elements * arguments.call.element_bytes;
  const u32 parts = arguments.parts_by_chunk ? parts_of(arguments.split, bytes) : arguments.channels;
  return part_of(chunk, arguments.call.element_bytes, parts, channel);
}

// All threads copy words of 16 bytes.
inline void copy_staged(void* to, const void* from, u64 bytes) {
  SCCL_ROLLED for (u64 i = thread_index(); i < bytes / sizeof(Vector);
                   i += thread_count()) static_cast<Vector*>(to)[i] = static_cast<const Vector*>(from)[i];
}

// Addresses of staged data, behind the places of operands and destinations.
struct StagedPlaces {
  StagedPlaces(const CallArguments& arguments, u8* places)
      : program(places + place_bytes(arguments.most_operands, arguments.most_destinations)),
        chunks(program + arguments.staging.program_bytes),
        lanes(chunks + arguments.staging.chunks * sizeof(Chunk)),
        connections(lanes + arguments.staging.lanes * sizeof(LaneState)) {}
  u8* program;
  u8* chunks;
  u8* lanes;
  u8* connections;
};

template <typename T>
inline const T* moved(const T* array, const void* from, const void* to) {
  return reinterpret_cast<const T*>(reinterpret_cast<u64>(array) - reinterpret_cast<u64>(from) +
                                    reinterpret_cast<u64>(to));
}

inline Program program_at(const Program& program, const void* place) {
  const void* const from = program.ops;
  return {moved(program.ops, from, place),
          moved(program.operands, from, place),
          moved(program.destinations, from, place),
          moved(program.dependencies, from, place),
          moved(program.lanes, from, place),
          program.lane_count,
          program.bytes,
          moved(program.endpoints, from, place),
          program.endpoint_count};
}

// A block copies the connections of the lanes that it runs, and no others: another block of the channel may already
// write back its own. Positions advance in the copy.
enum class Staged : u8 { take, put_back };
inline void copy_connections(const CallArguments& arguments, const Program& program, DeviceConnection* staged,
                             Staged way) {
  constexpr u32 kWords = sizeof(DeviceConnection) / sizeof(u64);
  const u32 channel = block_index() / arguments.blocks_per_channel;
  const u32 first = block_index() % arguments.blocks_per_channel;
  DeviceConnection* const all = arguments.connections + channel * arguments.connections_per_channel;
  SCCL_ROLLED for (u32 i = thread_index(); i < arguments.staging.connections * kWords; i += thread_count()) {
    const Endpoint& endpoint = program.endpoints[i / kWords];
    if (endpoint.lane % arguments.blocks_per_channel != first) continue;
    u64* const here = reinterpret_cast<u64*>(staged) + i;
    u64* const there = reinterpret_cast<u64*>(all + endpoint.connection) + i % kWords;
    if (way == Staged::take)
      *here = *there;
    else
      *there = *here;
  }
}

inline void stage(const CallArguments& arguments, BlockMemory& memory, const StagedPlaces& staged) {
  const u32 channel = block_index() / arguments.blocks_per_channel;
  const Staging& staging = arguments.staging;
  copy_staged(staged.program, arguments.program.ops, staging.program_bytes);
  if (arguments.call.chunks == nullptr)
    SCCL_ROLLED for (u32 i = thread_index(); i < arguments.chunk_count; i += thread_count()) memory.chunks[i] =
        part_for(arguments, arguments.chunks[i], channel);
  else
    copy_staged(staged.chunks, arguments.call.chunks + channel * arguments.chunk_count, staging.chunks * sizeof(Chunk));
  SCCL_ROLLED for (u32 i = thread_index(); i < staging.lanes;
                   i += thread_count()) reinterpret_cast<LaneState*>(staged.lanes)[i] = LaneState{0, 0, 0, -1};
}

// False: another kernel of the communicator runs, and this one must not touch anything.
inline bool begin_call(const CallArguments& arguments, u8* places) {
  BlockMemory& memory = block_memory();
  const StagedPlaces staged(arguments, places);
  const u32 channel = block_index() / arguments.blocks_per_channel;
  const Staging& staging = arguments.staging;
  stage(arguments, memory, staged);
  if (thread_index() == 0) {
    memory.call = arguments.call;
    memory.program = staging.program_bytes == 0 ? arguments.program : program_at(arguments.program, staged.program);
    memory.connections = staging.connections == 0 ? arguments.connections + channel * arguments.connections_per_channel
                                                  : reinterpret_cast<DeviceConnection*>(staged.connections);
    memory.lanes = staging.lanes == 0 ? arguments.lanes + channel * arguments.program.lane_count
                                      : reinterpret_cast<LaneState*>(staged.lanes);
    memory.sources = reinterpret_cast<Source*>(places);
    memory.sinks = reinterpret_cast<u8**>(places + arguments.most_operands * sizeof(Source));
    memory.bounce_bytes = arguments.bounce_bytes;
    memory.lone_lane =
        block_index() % arguments.blocks_per_channel + arguments.blocks_per_channel >= arguments.program.lane_count;
    memory.owed = Scope::none;
    memory.arguments = &arguments;
    memory.lane_words = &arguments.lanes[channel * arguments.program.lane_count].finished;
    memory.signs.begin();
    memory.stop_seen = false;
    if (arguments.call.chunks == nullptr)
      memory.call.chunks = memory.chunks;
    else
      memory.call.chunks = staging.chunks == 0 ? arguments.call.chunks + channel * arguments.chunk_count
                                               : reinterpret_cast<const Chunk*>(staged.chunks);
    memory.call.scratch = arguments.call.scratch + channel * arguments.scratch_channel_bytes;
    if (arguments.scale_pointer != nullptr) {
      u64 bits = 0;
      SCCL_ROLLED for (u32 i = 0; i < arguments.call.element_bytes; ++i) bits |=
          static_cast<u64>(reinterpret_cast<const u8*>(arguments.scale_pointer)[i]) << (8 * i);
      memory.call.scale_bits = bits;
    }
    const u32 blocks = arguments.channels * arguments.blocks_per_channel;
    memory.stopped = !take_ticket(arguments.control, arguments.ticket, blocks);
    if (memory.stopped) stop_all_ranks(arguments, StopReason::overlap, static_cast<int>(arguments.rank));
  }
  block_sync();
  if (memory.stopped) return false;
  // Beside the leader, who does not wait for the load.
  if (block_index() == 0 && thread_index() == thread_count() - 1) tell_begin(arguments.control, arguments.host);
  if (staging.connections > 0) {
    copy_connections(arguments, memory.program, memory.connections, Staged::take);
    block_sync();
  }
  return true;
}

// The last block to end resets the LaneStates, when no other block reads them any more.
inline void end_call(const CallArguments& arguments) {
  BlockMemory& memory = block_memory();
  const u32 blocks = arguments.channels * arguments.blocks_per_channel;
  block_sync();
  if (arguments.staging.connections > 0) {
    copy_connections(arguments, memory.program, memory.connections, Staged::put_back);
    block_sync();
  }
  if (thread_index() == 0) memory.word = fetch_add_device(&arguments.control->arrived_blocks, 1) + 1 == blocks ? 1 : 0;
  block_sync();
  if (memory.word == 0) return;
  const u32 lanes = arguments.channels * arguments.program.lane_count;
  SCCL_ROLLED for (u32 lane = thread_index(); lane < lanes; lane += thread_count()) arguments.lanes[lane] =
      LaneState{0, 0, 0, -1, 0};
  block_sync();
  if (thread_index() != 0) return;
  arguments.control->arrived_blocks = 0;
  give_ticket_back(arguments.control);
  tell_end(arguments.control, arguments.host, arguments.sequence);
}

template <class Mover>
inline void run_lanes(const CallArguments& arguments) {
  const u32 channel = block_index() / arguments.blocks_per_channel;
  const u32 first = block_index() % arguments.blocks_per_channel;
  const u32 lane_count = arguments.program.lane_count;
  BlockMemory& memory = block_memory();
  LaneState* const lanes = memory.lanes;
  Interpreter<Block> interpreter;
  for (;;) {
    bool unfinished = false;
    SCCL_ROLLED for (u32 lane = first; lane < lane_count; lane += arguments.blocks_per_channel) {
      Block::enter_lane(arguments, channel * lane_count + lane, lanes[lane]);
      Outcome outcome;
      for (;;) {
        outcome = interpreter.begin(lane, memory.begun);
        if (outcome != Outcome::progressed) break;
        make_move<Mover>();
        outcome = interpreter.finish(lane, memory.begun);
        if (outcome != Outcome::progressed) break;
      }
      block_sync();  // between two of agree()
      if (outcome == Outcome::finished) continue;
      unfinished = true;
      if (outcome == Outcome::blocked) continue;
      if (thread_index() == 0)
        Block::stop(outcome == Outcome::mismatch ? StopReason::mismatch : StopReason::unreachable,
                    lanes[lane].blocked_on_peer);
      return;
    }
    if (!unfinished || Block::stopped()) return;
    block_sync();  // as above
  }
}

template <class Mover>
inline void run_call(const CallArguments& arguments, u8* places) {
  if (!begin_call(arguments, places)) return;
  run_lanes<Mover>(arguments);
  end_call(arguments);
}

}  // namespace sccl::device::gpu

#if defined(SCCL_MOST_THREADS) && !SCCL_GPU_CUDA
#pragma clang force_cuda_host_device end
#endif

// Parameters are read in place, where the compiler supports that.
#if SCCL_GPU_CUDA && __CUDACC_VER_MAJOR__ >= 12
#define SCCL_GPU_PARAMETER const __grid_constant__
#else
#define SCCL_GPU_PARAMETER const
#endif

// One instance of the kernel, under an unmangled name.
#define SCCL_GPU_KERNEL(name, ...)                                                            \
  extern "C" SCCL_KERNEL void SCCL_MOST_THREADS(sccl::device::gpu::kMostThreads)              \
      name(SCCL_GPU_PARAMETER sccl::device::gpu::CallArguments a) {                           \
    extern SCCL_SHARED sccl::device::gpu::Vector places[];                                    \
    sccl::device::gpu::run_call<__VA_ARGS__>(a, reinterpret_cast<sccl::device::u8*>(places)); \
  }

#define SCCL_GPU_ONE_SIDED_KERNEL(name)                                          \
  extern "C" SCCL_KERNEL void SCCL_MOST_THREADS(sccl::device::gpu::kMostThreads) \
      name(SCCL_GPU_PARAMETER sccl::device::gpu::OneSidedArguments a) {          \
    SCCL_SHARED sccl::device::u32 last;                                          \
    sccl::device::gpu::run_one_sided(a, last);                                   \
  }
