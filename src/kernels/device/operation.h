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
//   bool leads(), kAlone                 whether this thread is the leader; whether it is the only thread
//   bool all(f)                          whether f() holds for every thread
//   void commit(f)                       the leader calls f() after all threads have moved their data
//   void sync()                          afterwards all threads see what any thread of the block wrote
//   static void reduce_copy(const Call&, Span of operands, Span of destinations, elements, divisor)
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

}  // namespace sccl::device
