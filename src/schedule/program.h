// The lowered form of a schedule: for every rank, lanes of fused operations (MSCCL's model, generalised).
//
// An operation waits until all its operands have arrived and all its departures have room. It then reduces the operands
// element by element, in order, into all its destinations. A lane runs its operations in order and repeats the list for
// every slice of the chunks. Lanes of a rank wait for one another through dependencies. MSCCL's s, r, rcs, rrs, rrc,
// rrcs, cpy and re are all operations of this form.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.h"

namespace sccl::schedule {

enum class Buffer : std::uint8_t { none, input, output, scratch };

// A chunk's interval in a buffer of the caller (index: the chunk), or a slice-sized piece of scratch (index: the
// piece).
struct Place {
  Buffer buffer = Buffer::none;
  int index = 0;
  auto operator<=>(const Place&) const = default;
};

// The source of an operand or the target of a result: a local place; a slot of a connection; or, with `remote`, a place
// in the peer's own buffers, whose addresses the peer posted on the connection.
enum class Via : std::uint8_t { local, slot, remote };

struct Access {
  Via via = Via::local;
  int connection = -1;  // index into the rank's connections, for slot and remote
  Place place;          // for local and remote
};

// The operation waits until operation `op` of lane `lane` has finished slice (current - distance).
struct Dependency {
  int lane = 0;
  int op = 0;
  int distance = 0;
};

enum class OpKind : std::uint8_t {
  move,     // operands -> destinations
  post,     // publish this rank's buffer addresses on destinations[0].connection
  release,  // tell the peer on operands[0].connection that its posted buffers are no longer used
  drain,    // wait until the peer on destinations[0].connection has released the posted buffers
};

struct Op {
  OpKind kind = OpKind::move;
  ChunkId chunk = 0;
  std::vector<Access> operands;
  std::vector<Access> destinations;
  bool completes = false;  // the result holds every contribution: integer averages divide here
  std::vector<Dependency> dependencies;
};

// slice_major: the outer loop runs over slices, which pipelines data through trees. op_major: each operation runs over
// all slices before the next operation begins.
enum class LaneOrder : std::uint8_t { slice_major, op_major };

struct Lane {
  LaneOrder order = LaneOrder::slice_major;
  std::vector<Op> ops;
};

enum class Direction : std::uint8_t { outgoing, incoming };

struct Connection {
  Direction direction = Direction::outgoing;
  Rank peer = 0;
  auto operator<=>(const Connection&) const = default;
};

struct RankProgram {
  std::vector<Connection> connections;
  std::vector<Lane> lanes;
  int scratch_slots = 0;
};

struct Program {
  std::vector<RankProgram> ranks;
};

}  // namespace sccl::schedule
