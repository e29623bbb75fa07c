// What the host hands to a kernel, and the memory through which they speak while it runs. Plain data for both sides.
#pragma once

#include "kernels/device/connection.h"
#include "kernels/device/program.h"
#include "kernels/device/wait_record.h"
#include "kernels/gpu/connection.h"

namespace sccl::device::gpu {

// With the rest of CallArguments this stays within the 4 KiB that a kernel's parameters may have.
inline constexpr u32 kInlineChunks = 96;
// Of a block, so that no kernel runs out of registers.
inline constexpr u32 kMostThreads = 384;

// So many lanes of a rank tell the host what they wait for.
inline constexpr u32 kMostWaitRecords = 64;

// Of one rank, in its device's memory; kernels of the ranks that can reach it add to `stop`.
struct Control {
  u64 arrived_blocks;  // of the running kernel: the last one leaves everything as the next kernel wants it
  u64 finished_calls;
  alignas(64) u64 stop;  // StopReason: why spinning must end; never reset
  u64 stop_peer;         // the rank that set it
};

enum class StopReason : u64 { none = 0, host = 1, mismatch = 2, peer = 3, unreachable = 4 };

// Of one rank, in host memory mapped to its device.
struct HostWords {
  alignas(64) u64 stop;  // set by the host
  // Set by the device:
  alignas(64) u64 began;    // kernels of this communicator
  u64 finished;             // and those that ended
  u64 finished_sequence;    // `sequence` of the last one that had one
  u64 stopped;              // StopReason of the first stop
  u64 peer;                 // the rank it was about
  alignas(64) u64 awaited;  // 1 + a rank that somebody waits for
  // By lane, counted through all channels: WaitRecord::packed() of a lane that waits. The host wipes them; a lane that
  // still waits writes its record again.
  u64 waits[kMostWaitRecords];
};

struct CallArguments {
  Program program;  // of device or mapped memory, as all pointers here
  Call call;
  Split split;
  bool parts_by_chunk;  // point-to-point: each transfer takes as many channels as its own size asks for
  u32 channels;         // of this launch
  u32 blocks_per_channel;
  DeviceConnection* connections;  // by channel, then by the executor's index
  u32 connections_per_channel;
  LaneState* lanes;           // by channel, then lane; zero when a kernel begins
  u64 scratch_channel_bytes;  // from one channel's scratch memory to the next's
  u8* bounce;                 // by channel, then lane: bounce_buffers of bounce_bytes
  u64 bounce_bytes;
  u32 bounce_buffers;
  u32 most_operands;
  Control* control;
  Control* const* peer_controls;  // by rank; null where out of reach
  u32 ranks;
  u32 rank;
  HostWords* host;
  u64 sequence;              // 0: of a call that is replayed
  const u64* scale_pointer;  // the factor of a pre-multiplied sum, read when the kernel runs; may be null
  u32 chunk_count;           // of `chunks`; when call.chunks is set, of each channel's table there
  Chunk chunks[kInlineChunks];
};
static_assert(sizeof(CallArguments) <= 4096);

// Of the kernel of one-sided calls (one_sided_kernel.h).
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
  u64 sequence;  // 0: of a call that is replayed
  u32 wait_count;
  AwaitedSignal waits[kMostWaits];
};
static_assert(sizeof(OneSidedArguments) <= 4096);

// A block's shared memory beside what is declared: where an operation's operands are, 16 bytes each, and its
// destinations.
inline u64 shared_bytes(u32 most_operands, u32 most_destinations) {
  return most_operands * 16ull + (most_destinations + 1ull) * 8;
}

}  // namespace sccl::device::gpu
