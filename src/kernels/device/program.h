// A rank's program as a kernel sees it: flat arrays and pointers, no host types. One form serves every target.
#pragma once

#include "base/scalar_types.h"

// Placed before a loop of few rounds: unrolled copies of the body would cost a GPU more registers than the branch costs
// time.
#if defined(__CUDACC__) || defined(__HIP__)
#define SCCL_ROLLED _Pragma("unroll 1")
#define SCCL_UNROLLED _Pragma("unroll")
// A real call on a GPU: the registers of the function are free again when data moves.
#define SCCL_CALLED __attribute__((noinline))
#else
#define SCCL_ROLLED
#define SCCL_UNROLLED
#define SCCL_CALLED
#endif

namespace sccl::device {

using u8 = unsigned char;
using u32 = unsigned int;
using u64 = unsigned long long;

enum class Via : u8 { local, slot, remote };
enum class Buffer : u8 { none, input, output, scratch };
enum class OpKind : u8 { move, post, release, drain };
enum class LaneOrder : u8 { slice_major, op_major };
// `simple`: bulk payload, then a flag. `ll`: each 8-byte word has 4 bytes of payload and the flag. `ll128`: each line
// of 128 bytes has 120 bytes of payload and the flag.
enum class Protocol : u8 { simple, ll, ll128 };

struct Access {
  Via via;
  Buffer buffer;
  int connection;  // for slot and remote
  u32 index;       // chunk, or scratch slot
};

struct Dependency {
  u32 lane;
  u32 op;
  u32 distance;
};

// Aligned, so that a device loads it in two pieces.
struct alignas(16) Op {
  OpKind kind;
  bool completes;
  bool receives;  // some operand comes through a slot
  bool sends;     // some destination is a slot
  u32 chunk;
  u32 operand_begin, operand_count;
  u32 destination_begin, destination_count;
  u32 dependency_begin, dependency_count;
};

struct Lane {
  LaneOrder order;
  u32 op_begin, op_count;
};

enum ChunkFlag : u32 {
  kAbsent = 1,      // belongs to another channel (part_of); this channel neither moves nor announces it
  kPostedPart = 2,  // the input lies at an address that the peer posts for each part
};

// Offsets and sizes count elements of the call's type.
struct Chunk {
  u64 input_offset;
  u64 output_offset;
  u64 elements;
  u32 tag;  // mixed into the signature of the chunk's messages; for point-to-point transfers, which have no common call
  u32 flags;  // of ChunkFlag
};

// A connection of a program, and the one lane that uses it.
struct Endpoint {
  u32 connection;  // index into all connections of a channel
  u32 lane;
};

struct Program {
  const Op* ops;
  const Access* operands;
  const Access* destinations;
  const Dependency* dependencies;
  const Lane* lanes;
  u32 lane_count;
  // `bytes`: size of the one block that holds all arrays, beginning with `ops`. With endpoints, `Access::connection` is
  // an index of an endpoint instead of a connection.
  u32 bytes;
  const Endpoint* endpoints;
  u32 endpoint_count;
};

// One call of a program: the buffers and everything else that changes from call to call.
struct Call {
  const Chunk* chunks;
  const u8* input;
  u8* output;
  u8* scratch;
  u64 scratch_slot_bytes;
  DataType type;
  ReduceKernel kernel;
  Protocol protocol;
  bool scaled;     // each operand from a caller's input buffer is multiplied by the scale of that caller's rank
  u64 scale_bits;  // scale of this rank
  u32 divisor;     // > 1: complete results are divided (integer averages)
  u32 element_bytes;
  u64 slice_elements;
  u64 slice_count;
  u32 signature;  // of the call; a message with another signature means that ranks called different things
  // By rank: the address of that rank's buffer in this process minus the address that the rank posts. Null: all zero.
  const u64* input_shifts;
  const u64* output_shifts;
  bool lends_slots;  // `simple` on the host: one slot holds the data of several (kernels/host/messages/shared_slots.h)
  // Only on devices, and not of connections with other hosts: short messages have 2^slot_shift times as many slots, in
  // the same memory. The same at all ranks.
  u32 slot_shift;
};

struct LaneState {
  u64 slice;
  u32 op;
  u64 finished;             // operations finished over all slices; read by dependent lanes of the same rank
  int blocked_on_peer;      // the peer that the last unsuccessful step waited for; -1: another lane
  u32 blocked_on_slot = 0;  // of the connection with that peer; set only where several threads run a lane
};

// The part of a chunk that one channel moves. Every rank computes the parts from the chunk's size alone, whatever else
// is in the rank's call, so both ends of a transfer agree on the number of channels.
struct Split {
  u32 channels;     // the available channels
  u64 least_bytes;  // every part must have at least this size
};

inline constexpr u32 kPartUnitBytes = 512;  // parts begin at multiples of this size, so that vectors stay whole

inline u32 parts_of(const Split& split, u64 bytes) {
  const u64 wanted = bytes / split.least_bytes;
  if (wanted <= 1) return 1;
  return wanted < split.channels ? static_cast<u32>(wanted) : split.channels;
}

inline Chunk part_of(const Chunk& chunk, u32 element_bytes, u32 parts, u32 channel) {
  const u64 unit = kPartUnitBytes / element_bytes;
  const u64 units = (chunk.elements + unit - 1) / unit;
  const u64 each = (units + parts - 1) / parts * unit;
  const u64 begin = channel < parts ? each * channel : chunk.elements;
  Chunk part = chunk;
  if (channel >= parts) part.flags |= kAbsent;
  if ((chunk.flags & kPostedPart) == 0) part.input_offset += begin;
  part.output_offset += begin;
  part.elements = begin >= chunk.elements ? 0 : chunk.elements - begin < each ? chunk.elements - begin : each;
  return part;
}

// Result of a lane's last step. After `mismatch` and `failed` the lane must not be stepped again. `passed`, in a block
// only: the first half of the step has done operations that move no data, and has begun none.
enum class Outcome : u8 { progressed, blocked, finished, mismatch, failed, passed };

}  // namespace sccl::device
