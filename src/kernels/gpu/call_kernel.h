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
#include "kernels/gpu/straight_operation.h"
#include "kernels/gpu/ticket.h"

namespace sccl::device::gpu {

// The host computes tables that are too long for the kernel's parameters in the same way.
inline Chunk part_for(const CallArguments& arguments, const Chunk& chunk, u32 channel) {
  const u64 bytes = chunk.elements * arguments.call.element_bytes;
  const u32 parts = arguments.parts_by_chunk ? parts_of(arguments.split, bytes) : arguments.channels;
  return part_of(chunk, arguments.call.element_bytes, parts, channel);
}

// Which channel a block works for, and as which of the channel's blocks.
struct BlockRole {
  explicit BlockRole(const CallArguments& arguments)
      : channel(arguments.blocks_per_channel == 1 ? block_index() : block_index() / arguments.blocks_per_channel),
        first(block_index() - channel * arguments.blocks_per_channel) {}
  bool runs(const CallArguments& arguments, u32 lane) const {
    return (lane < arguments.blocks_per_channel ? lane : lane % arguments.blocks_per_channel) == first;
  }
  u32 channel;
  u32 first;
};

// An order of the threads that begins with the thread `first`, if there are so many.
inline u32 rotated_thread(u32 first) {
  if (first >= thread_count()) return thread_index();
  return thread_index() >= first ? thread_index() - first : thread_index() + thread_count() - first;
}

// All threads copy words of 16 bytes.
inline void copy_staged(void* to, const void* from, u64 bytes, u32 thread) {
  SCCL_ROLLED for (u64 i = thread; i < bytes / sizeof(Vector); i += thread_count()) static_cast<Vector*>(to)[i] =
      static_cast<const Vector*>(from)[i];
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
inline void copy_connections(const CallArguments& arguments, const BlockRole& role, const Endpoint* endpoints,
                             DeviceConnection* staged, Staged way) {
  constexpr u32 kVectors = sizeof(DeviceConnection) / sizeof(Vector);
  DeviceConnection* const all = arguments.connections + role.channel * arguments.connections_per_channel;
  SCCL_ROLLED for (u32 i = thread_index(); i < arguments.staging.connections * kVectors; i += thread_count()) {
    const Endpoint& endpoint = endpoints[i / kVectors];
    if (!role.runs(arguments, endpoint.lane)) continue;
    Vector* const here = reinterpret_cast<Vector*>(staged) + i;
    Vector* const there = reinterpret_cast<Vector*>(all + endpoint.connection) + i % kVectors;
    if (way == Staged::take)
      *here = *there;
    else
      *there = *here;
  }
}

// The first warp has its leader's work; the next ones begin with what lies in memory, so that both take place at a
// time.
inline void stage(const CallArguments& arguments, const BlockRole& role, const StagedPlaces& staged) {
  const Staging& staging = arguments.staging;
  const u32 second_warp = rotated_thread(32);
  copy_staged(staged.program, arguments.program.ops, staging.program_bytes, second_warp);
  Chunk* const chunks = block_memory().chunks;
  const u32 third_warp = rotated_thread(64);
  if (arguments.call.chunks != nullptr)
    copy_staged(staged.chunks, arguments.call.chunks + role.channel * arguments.chunk_count,
                staging.chunks * sizeof(Chunk), third_warp);
  else if (arguments.channels == 1)  // a chunk is its only part
    SCCL_ROLLED for (u32 i = third_warp; i < arguments.chunk_count; i += thread_count()) chunks[i] =
        arguments.chunks[i];
  else
    SCCL_ROLLED for (u32 i = third_warp; i < arguments.chunk_count; i += thread_count()) chunks[i] =
        part_for(arguments, arguments.chunks[i], role.channel);
  SCCL_ROLLED for (u32 i = third_warp; i < staging.lanes;
                   i += thread_count()) reinterpret_cast<LaneState*>(staged.lanes)[i] = LaneState{0, 0, 0, -1};
}

// Leader only: what a block knows of its call.
inline void describe_call(const CallArguments& arguments, const BlockRole& role, u8* places,
                          const StagedPlaces& staged) {
  BlockMemory& memory = block_memory();
  const Staging& staging = arguments.staging;
  const u32 channel = role.channel;
  memory.call = arguments.call;
  memory.program = staging.program_bytes == 0 ? arguments.program : program_at(arguments.program, staged.program);
  memory.connections = staging.connections == 0 ? arguments.connections + channel * arguments.connections_per_channel
                                                : reinterpret_cast<DeviceConnection*>(staged.connections);
  memory.lanes = staging.lanes == 0 ? arguments.lanes + channel * arguments.program.lane_count
                                    : reinterpret_cast<LaneState*>(staged.lanes);
  memory.sources = reinterpret_cast<Source*>(places);
  memory.sinks = reinterpret_cast<u8**>(places + arguments.most_operands * sizeof(Source));
  memory.word_sinks = reinterpret_cast<WordPlace*>(memory.sinks);
  memory.bounce_bytes = arguments.bounce_bytes;
  memory.lanes_apart = arguments.blocks_per_channel > 1;
  memory.way = way_of(arguments.call);
  memory.owed = Scope::none;
  memory.arguments = &arguments;
  memory.lane_words = memory.lanes_apart ? &arguments.lanes[channel * arguments.program.lane_count].finished
                                         : &memory.lanes[0].finished;
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
}

// The last thread takes the ticket and tells the host of it, while the others fetch what the call needs. Until the
// ticket is there they read only what no other kernel writes; the barrier orders the ticket before all that follows it.
// False: another kernel of the communicator runs, and this one must not touch anything.
inline bool begin_call(const CallArguments& arguments, const BlockRole& role, u8* places) {
  BlockMemory& memory = block_memory();
  const StagedPlaces staged(arguments, places);
  const bool last_thread = thread_index() == thread_count() - 1;
  if (last_thread)
    memory.stopped =
        !take_ticket(arguments.control, arguments.ticket, arguments.channels * arguments.blocks_per_channel);
  if (thread_index() == 0) describe_call(arguments, role, places, staged);
  stage(arguments, role, staged);
  block_sync();
  if (memory.stopped) {
    if (last_thread) stop_all_ranks(arguments, StopReason::overlap, static_cast<int>(arguments.rank));
    return false;
  }
  // Read here, where nobody waits for it, for the block that ends last.
  if (last_thread) memory.count = load_relaxed_system(&arguments.control->finished_calls) + 1;
  if (arguments.staging.connections > 0)
    copy_connections(arguments, role, memory.program.endpoints, memory.connections, Staged::take);
  if (last_thread && block_index() == 0) tell_begin(arguments.host, memory.count);
  block_sync();
  return true;
}

// The last block to end resets the LaneStates, when no other block reads them any more.
inline void end_call(const CallArguments& arguments, const BlockRole& role) {
  BlockMemory& memory = block_memory();
  const u32 blocks = arguments.channels * arguments.blocks_per_channel;
  block_sync();
  if (arguments.staging.connections > 0)
    copy_connections(arguments, role, memory.program.endpoints, memory.connections, Staged::put_back);
  if (blocks > 1) {
    block_sync();
    // Each block releases what it has written, and the last one acquires it.
    if (thread_index() == 0)
      memory.word = fetch_add_device(&arguments.control->arrived_blocks, 1) + 1 == blocks ? 1 : 0;
    block_sync();
    if (memory.word == 0) return;
  }
  const u32 lanes = arguments.channels * arguments.program.lane_count;
  if (memory.lanes_apart || arguments.staging.lanes == 0)  // else the original has not been used
    SCCL_ROLLED for (u32 lane = thread_index(); lane < lanes; lane += thread_count()) arguments.lanes[lane] =
        LaneState{0, 0, 0, -1, 0};
  block_sync();
  if (thread_index() != 0) return;
  if (blocks > 1) arguments.control->arrived_blocks = 0;
  give_ticket_back(arguments.control, memory.count);
  tell_end(arguments.host, arguments.sequence, memory.count);
}

// Runs the lane until it can go on no more.
template <class Mover>
inline Outcome run_lane(u32 lane) {
  Interpreter<Block> interpreter;
  BlockMemory& memory = block_memory();
  for (;;) {
    Outcome begun = Outcome::blocked;
    if (memory.way == Way::words)
      begun = pass_by_words<Mover>(lane);
    else if (memory.way == Way::slots)
      begun = begin_by_slots(lane);
    if (begun == Outcome::finished) return begun;
    const bool straight = begun == Outcome::progressed;
    if (straight && memory.way == Way::words) continue;
    if (!straight) {
      if (memory.way != Way::interpreted) block_sync();  // the leader may advance the lane before others look at it
      const Outcome outcome = interpreter.begin(lane, memory.begun);
      if (outcome == Outcome::passed) {
        block_sync();  // the leader has advanced the lane
        continue;
      }
      if (outcome != Outcome::progressed) return outcome;
    }
    make_move<Mover>();
    if (straight) {
      finish_by_slots(lane);
    } else {
      if (const Outcome outcome = interpreter.finish(lane, memory.begun); outcome != Outcome::progressed)
        return outcome;
      if (memory.way != Way::interpreted) block_sync();  // the leader has advanced the lane
    }
  }
}

inline bool has_finished(u32 lane) {
  const BlockMemory& memory = block_memory();
  return is_finished(memory.call, memory.program.lanes[lane], memory.lanes[lane]);
}

template <class Mover>
inline void run_lanes(const CallArguments& arguments, const BlockRole& role) {
  const u32 lane_count = arguments.program.lane_count;
  const u32 step = arguments.blocks_per_channel;
  u32 open = step == 1 ? lane_count : (lane_count - role.first + step - 1) / step;  // lanes that have not finished
  for (bool again = false;; again = true) {
    bool unfinished = false;
    SCCL_ROLLED for (u32 lane = role.first; lane < lane_count; lane += step) {
      if (again && has_finished(lane)) continue;
      Block::enter_lane(arguments, role.channel * lane_count + lane, block_memory().lanes[lane], open == 1);
      block_sync();
      const Outcome outcome = run_lane<Mover>(lane);
      block_sync();  // between two of agree()
      if (outcome == Outcome::finished) {
        --open;
        continue;
      }
      unfinished = true;
      if (outcome == Outcome::blocked) continue;
      if (thread_index() == 0)
        Block::stop(outcome == Outcome::mismatch ? StopReason::mismatch : StopReason::unreachable,
                    block_memory().lanes[lane].blocked_on_peer);
      return;
    }
    if (!unfinished || Block::stopped()) return;
    block_sync();  // as above
  }
}

template <class Mover>
inline void run_call(const CallArguments& arguments, u8* places) {
  const BlockRole role(arguments);
  if (!begin_call(arguments, role, places)) return;
  run_lanes<Mover>(arguments, role);
  end_call(arguments, role);
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
