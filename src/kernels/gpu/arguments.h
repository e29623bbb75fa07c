// What the host passes to a kernel, and the memory through which host and kernel communicate while the kernel runs.
// Plain data for both sides.
#pragma once

#include "kernels/device/connection.h"
#include "kernels/device/program.h"
#include "kernels/device/wait_record.h"
#include "kernels/gpu/connection.h"

namespace sccl::device::gpu {

// With the rest of CallArguments this fits into the 4 KiB of a kernel's parameters.
inline constexpr u32 kInlineChunks = 96;
// Threads of a block. A multiprocessor has room and registers for one block of most threads, or for two usual ones,
// also of different communicators.
inline constexpr u32 kMostThreads = 512;
inline constexpr u32 kUsualThreads = kMostThreads / 2;

// The number of lanes of a rank that report to the host what they wait for.
inline constexpr u32 kMostWaitRecords = 64;

// State of one rank in the memory of its device. Kernels of all ranks that can reach it may set `stop`.
struct Control {
  // blocks of the running kernel that have ended; the last one prepares all state for the next kernel
  u64 arrived_blocks;
  u64 finished_calls;
  u64 running;           // the ticket of the running launch and the number of its blocks (ticket.h); 0: no kernel runs
  alignas(64) u64 stop;  // StopReason: why spinning must end; never reset
  u64 stop_peer;         // the rank that set it
};

enum class StopReason : u64 { none = 0, host = 1, mismatch = 2, peer = 3, unreachable = 4, overlap = 5 };

// For whom a block waits. It has polled for the message, in vain, after it had read the question of that number.
struct Wait {
  int peer;      // -1: none
  u32 question;  // 0: none

  u64 packed() const { return static_cast<u64>(question) << 32 | static_cast<u32>(peer + 1); }
  static Wait unpacked(u64 word) {
    return {static_cast<int>(static_cast<u32>(word)) - 1, static_cast<u32>(word >> 32)};
  }
};

// State of one rank in host memory that is mapped to its device.
struct HostWords {
  // Set by the host:
  alignas(64) u64 stop;
  u64 question;  // counts: asks for whom blocks wait now
  // Set by the device:
  alignas(64) u64 began;    // kernels of this communicator
  u64 finished;             // kernels that ended
  u64 finished_sequence;    // `sequence` of the last ended kernel that had one
  u64 stopped;              // StopReason of the first stop
  u64 peer;                 // the rank it was about
  alignas(64) u64 awaited;  // a Wait: that of some block, which may be over since
  // By lane, counted through all channels: WaitRecord::packed() of a lane that waits. The host clears the records; a
  // lane that still waits writes its record again.
  u64 waits[kMostWaitRecords];
};

// What a block copies into its shared memory when a call begins, behind the places of operands and destinations, in
// this order: the program, a table of chunks, the states of its lanes (all whole vectors), the connections that the
// program names. What does not fit is read in global memory.
struct Staging {
  u32 program_bytes;
  u32 connections;
  u32 lanes;
  u32 chunks;
};

// Two usual blocks share a multiprocessor; this is half of the smallest shared memory that any device offers to a
// block.
inline constexpr u32 kMostStagedBytes = 20 * 1024;

inline Staging staging_for(const Program& program, u32 chunks) {
  Staging staging{0, 0, 0, 0};
  u64 room = kMostStagedBytes;
  const auto take = [&](u64 bytes) {
    const bool fits = bytes <= room;
    if (fits) room -= bytes;
    return fits;
  };
  if (take(program.bytes)) staging.program_bytes = program.bytes;
  // Accesses that name endpoints need the endpoints in shared memory.
  if (program.endpoint_count > 0 && take(program.endpoint_count * sizeof(DeviceConnection)))
    staging.connections = program.endpoint_count;
  if (take(program.lane_count * sizeof(LaneState))) staging.lanes = program.lane_count;
  if (take(chunks * sizeof(Chunk))) staging.chunks = chunks;
  return staging;
}

struct CallArguments {
  Program program;  // all pointers here point to device memory or mapped memory
  Staging staging;
  Call call;
  Split split;
  bool parts_by_chunk;  // point-to-point: the size of each transfer decides how many channels it takes
  u32 channels;         // of this launch
  u32 blocks_per_channel;
  DeviceConnection* connections;  // by channel, then by the executor's index
  u32 connections_per_channel;
  LaneState* lanes;           // by channel, then lane; zero when a kernel begins
  u64 scratch_channel_bytes;  // distance between the scratch memory of two channels
  u8* bounce;                 // by channel, then lane: bounce_buffers of bounce_bytes
  u64 bounce_bytes;
  u32 bounce_buffers;
  u32 most_operands;
  u32 most_destinations;
  Control* control;
  Control* const* peer_controls;  // by rank; null where out of reach
  u32 ranks;
  u32 rank;
  HostWords* host;
  u64 sequence;              // 0: the call is replayed
  u64 ticket;                // of this launch, or of this node of a graph, alone
  const u64* scale_pointer;  // factor of a pre-multiplied sum, read when the kernel runs; may be null
  u32 chunk_count;           // of `chunks`; when call.chunks is set, of each channel's table in call.chunks
  Chunk chunks[kInlineChunks];
};
static_assert(sizeof(CallArguments) <= 4096);

// For the kernel of one-sided calls (one_sided_kernel.h).
inline constexpr u32 kMostWaits = 64;  // of one launch

struct AwaitedSignal {
  const u64* arrived;
  u64* used;
  u64 count;
  int peer;
};

struct OneSidedArguments {
  const u8* from;
  u8* to;
  u64 bytes;
  u64* arrived;  // the peer's counter; null: no signal
  u64* sent;
  u32 blocks;
  u32 rank;
  Control* control;
  HostWords* host;
  u64 sequence;  // 0: the call is replayed
  u64 ticket;
  u32 wait_count;
  AwaitedSignal waits[kMostWaits];
};
static_assert(sizeof(OneSidedArguments) <= 4096);

// The dynamic shared memory of a block: the operands of an operation and its destinations, 16 bytes each.
inline u64 place_bytes(u32 most_operands, u32 most_destinations) {
  return (most_operands + most_destinations + 1ull) * 16;
}
inline u64 shared_bytes(const CallArguments& arguments) {
  const Staging& staging = arguments.staging;
  return place_bytes(arguments.most_operands, arguments.most_destinations) + staging.program_bytes +
         staging.connections * sizeof(DeviceConnection) + staging.lanes * sizeof(LaneState) +
         staging.chunks * sizeof(Chunk);
}

}  // namespace sccl::device::gpu
