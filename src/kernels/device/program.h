// A rank's program as a kernel sees it: flat arrays, pointers, no host types. One instance serves every target.
#pragma once

#include "base/scalar_types.h"

namespace sccl::device {

using u8 = unsigned char;
using u32 = unsigned int;
using u64 = unsigned long long;

enum class Via : u8 { local, slot, remote };
enum class Buffer : u8 { none, input, output, scratch };
enum class OpKind : u8 { move, post, release, drain };
enum class LaneOrder : u8 { slice_major, op_major };
// `simple`: bulk payload, then a flag. `ll`: every 8-byte word carries 4 bytes of payload and the flag.
enum class Protocol : u8 { simple, ll };

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

struct Op {
  OpKind kind;
  bool completes;
  u32 chunk;
  u32 operand_begin, operand_count;
  u32 destination_begin, destination_count;
  u32 dependency_begin, dependency_count;
};

struct Lane {
  LaneOrder order;
  u32 op_begin, op_count;
};

// In elements of the call's type.
struct Chunk {
  u64 input_offset;
  u64 output_offset;
  u64 elements;
  u32 tag;  // mixed into the signature of the chunk's messages; of point-to-point transfers, which have no common call
};

struct Program {
  const Op* ops;
  const Access* operands;
  const Access* destinations;
  const Dependency* dependencies;
  const Lane* lanes;
  u32 lane_count;
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
  bool scaled;       // operands from callers' input buffers are multiplied by their rank's scale
  u64 scale_bits;    // this rank's
  u32 divisor;       // > 1: complete results are divided (integer averages)
  u32 element_bytes;
  u64 slice_elements;
  u64 slice_count;
  u32 signature;     // of the call; a message of another call is a mismatch among the ranks
};

struct LaneState {
  u64 slice;
  u32 op;
  u64 finished;         // operations finished over all slices; read by dependent lanes of the same rank
  int blocked_on_peer;  // whom the last unsuccessful step waited for; -1: another lane
};

// Of the lane's last step. After `mismatch` and `failed` the lane must not be stepped again.
enum class Outcome : u8 { progressed, blocked, finished, mismatch, failed };

}  // namespace sccl::device
