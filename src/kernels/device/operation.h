// What the interpreter and its target tell each other about the operation that a lane is at.
//
// Target offers, besides the memory vocabulary of protocol.h:
//   Outcome await(f, then)               the leader's f(), and then() if it progressed, after which all threads see
//                                        what the leader wrote; may call f again while it is blocked
//   begun(mine)                          where the leader keeps an operation that has begun, for all threads to read
//   bool kSignedFlags                    whether flags carry the signature (protocol.h)
//   void acquire(Scope)                  fence A of protocol.h; void release(Scope)  fence R
//   void watch(word, seen)               the leader's lane is blocked until *word is something else
//   u64* lane_word(lanes, lane)          where a lane tells how far it is
//   bool leads(), kAlone                 whether this thread is the leader; whether there are no others
//   bool all(f)                          whether f() holds for every thread
//   void commit(f)                       the leader's f(), after all threads have moved their data
//   void sync()                          all threads see what any of them wrote in the block
//   static void reduce_copy(const Call&, Span of operands, Span of destinations, elements, divisor)
//   if not alone: hold_move(operands, scaled, destinations, elements, divisor)
//                                        the leader's: what all threads are to move between begin() and finish()
//   u8* bounce(i)                        one slice of private memory for operand i; bounce(kResult) for a result
//   bool fetch(connection, to, address, bytes), bool put(connection, address, from, bytes)
//                                        a peer's memory, where it does not share the address space
//   void ring(connection)                wakes the peer; everything stored before is visible to it
//   Ll                                   its form of the `ll` protocol: protocol.h's, or one whose messages are used in
//                                        place
//   bool kKeepsLines                     whether it speaks lines.h's vocabulary, too
//   void awaits(word, shift, value, data)
//                                        the leader's lane is blocked until *word >> shift == value; data is read then
//   bool kLendsSlots                     whether one slot's payload may serve several messages: lend(lender, borrower),
//                                        still_read(lender), lent_payload(place)
//   Source* sources(), u8** sinks()      room for one operation's operands and destinations
//   void fills_slot(sink, connection)    that sink is a slot of the connection
#pragma once

#include "kernels/device/program.h"

namespace sccl::device {

struct Source {
  const u8* data;
  u64 scale_bits;
};

// What an operation did: data went without messages, or with messages that are to be published and consumed.
enum class Motion : u8 { none, failed, quiet, messages };

// The operation that a lane is at. Both ends of a message compute the same size, so neither sends nor expects an
// empty one: an operation without elements only takes its place in the order.
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
