// What the interpreter and its target exchange about the current operation of a lane.
//
// Target offers, besides the memory vocabulary of protocol.h:
//   Outcome await(f, then)               the leader calls f(), and then() if f() progressed; afterwards all threads see
//                                        what the leader wrote; may call f() again while f() is blocked
//   begun(mine)                          where the leader keeps the operation that has begun; all threads can read it
//   bool kSignedFlags                    whether flags carry the signature (protocol.h)
//   void acquire(Scope)                  fence A of protocol.h; void release(Scope)  fence R
//   void watch(word, seen)               the leader's lane is blocked while *word == seen
//   u64* lane_word(lanes, lane)          the word in which a lane publishes its progress
//   Scope reach_of_lanes()               how far that word, and what it tells of, must be visible
//   bool leads(), kAlone                 whether this thread is the leader; whether it is the only thread
//   bool all(f)                          whether f() holds for every thread
//   void commit(f)                       the leader calls f() after all threads have moved their data
//   void sync()                          afterwards all threads see what any thread of the block wrote
//   static void reduce_copy(const Call&, Span of operands, Span of destinations, elements, divisor)
//   if not alone: bool tries_straight()  whether the block has another way for operations that move data
//   if not alone: agree(f)               the leader calls f(); all threads get its result
//   if not alone: u32 patience()         how often a thread looks at a word before the lane counts as blocked
//   if not alone: hold_move(operands, scaled, destinations, elements, divisor)
//                                        leader only: what all threads are to move between begin() and finish()
//   u8* bounce(i)                        one slice of private memory for operand i; bounce(kResult) for a result
//   bool fetch(connection, to, address, bytes), bool put(connection, address, from, bytes)
//                                        copy from and to a peer's memory that is not in this address space
//   void ring(connection)                wakes the peer; everything stored before is visible to the peer
//   Ll                                   the target's form of the `ll` protocol: that of protocol.h, or one whose
//                                        messages are used in place
//   bool kKeepsLines                     whether the target offers the vocabulary of lines.h, too
//   void awaits(word, shift, value, data)
//                                        the leader's lane is blocked until *word >> shift == value; then it reads data
//   bool kLendsSlots                     whether one slot's payload may serve several messages: lend(lender, borrower),
//                                        still_read(lender), lent_payload(place)
//   bool shows(connection, buffer, bytes)
//                                        with kLendsSlots: whether a payload from that buffer of the call is sent to
//                                        another host from where it lies
//   bool shares_slots(call, connection)  whether it may in this call and among others on this connection
//   Source* sources(), u8** sinks()      room for one operation's operands and destinations
//   void fills_slot(sink, connection)    this sink is a slot of the connection
#pragma once

#include "kernels/device/program.h"

namespace sccl::device {

struct Source {
  const u8* data;
  u64 scale_bits;
};

// What an operation did: `quiet` moved data without messages; `messages` has messages to publish and to consume.
enum class Motion : u8 { none, failed, quiet, messages };

// The current operation of a lane. Both ends of a message compute the same size, so neither end sends or expects an
// empty message: an operation without elements only takes its place in the order.
struct Turn {
  const Op* op;
  u64 slice;
  u64 elements;
  bool acts;
};

struct Begun {
  Turn turn;
  Motion motion;
};

// Where a chunk, or a slot of scratch memory, lies behind the beginning of its buffer.
inline u64 offset_bytes(const Call& call, const Access& access, u64 slice) {
  if (access.buffer == Buffer::scratch) return access.index * call.scratch_slot_bytes;
  const Chunk& moved = call.chunks[access.index];
  const u64 base = access.buffer == Buffer::input ? moved.input_offset : moved.output_offset;
  return (base + slice * call.slice_elements) * call.element_bytes;
}

// Computed as integers: the buffers of a point-to-point batch are unrelated objects behind one base of zero.
inline u8* local_address(const Call& call, const Access& access, u64 slice) {
  const u8* base = access.buffer == Buffer::input    ? call.input
                   : access.buffer == Buffer::output ? call.output
                                                     : call.scratch;
  return reinterpret_cast<u8*>(reinterpret_cast<u64>(base) + offset_bytes(call, access, slice));
}

inline bool reads_input(const Program& program, const Op& op) {
  SCCL_ROLLED for (u32 i = 0; i < op.operand_count; ++i) {
    const Access& operand = program.operands[op.operand_begin + i];
    if (operand.via != Via::slot && operand.buffer == Buffer::input) return true;
  }
  return false;
}

// Copies one operand from a peer's memory to a local destination: no bounce buffer is needed.
template <class Connection>
inline bool is_remote_copy(const Program& program, const Op& op, const Connection* connections) {
  if (op.operand_count != 1 || op.destination_count != 1) return false;
  const Access& operand = program.operands[op.operand_begin];
  const Access& destination = program.destinations[op.destination_begin];
  return operand.via == Via::remote && destination.via == Via::local && !connections[operand.connection].maps_buffers;
}

// Of an operation that receives.
inline int first_connection(const Program& program, const Op& op) {
  u32 i = op.operand_begin;
  while (program.operands[i].via != Via::slot) ++i;
  return program.operands[i].connection;
}

}  // namespace sccl::device
