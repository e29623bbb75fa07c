/* One direction between two ranks: a ring of slots with flags, and the receiver's tail (src/kernels/device/connection.h,
 * `Slots` in src/kernels/device/protocol.h).
 *
 * Abstracts from: what a message says (its number stands for it); headers and payloads as several words (one word each:
 * the protocol orders payload before flag, and reading before tail, whatever their number); the width of the counters.
 * As in the code there are more headers than payload slots, both indices wrap around several times, and the sender
 * keeps the tail that it saw last.
 *
 * Proved: each message is read once, in order, with its own payload; the sender waits for nothing that has happened.
 *
 * MUTANT flag_relaxed: the flag may become visible before the payload
 * MUTANT flag_not_counted: the flag is 1 instead of the number of messages
 * MUTANT reused_early: the sender takes a slot that the receiver has not consumed
 * MUTANT tail_before_read: the receiver frees the slot before it has read it
 * MUTANT tail_seen_once: the sender never looks at the tail again
 */
#define MESSAGES 6
#define SLOTS 2
#define HEADERS 4

#define RANKS 2
#define PLACES 7
#define DEPTH 4
#define PAYLOAD(position) ((position) % SLOTS)
#define FLAG(position) (SLOTS + (position) % HEADERS)
#define TAIL (SLOTS + HEADERS)
#include "store_buffers.pml"

#ifdef flag_relaxed
#define FLAG_ORDER RELAXED
#else
#define FLAG_ORDER RELEASE
#endif
#ifdef flag_not_counted
#define FLAG_OF(position) 1
#else
#define FLAG_OF(position) ((position) + 1)
#endif
#ifdef reused_early
#define HAS_ROOM(position, tail) ((position) - (tail) <= SLOTS)
#else
#define HAS_ROOM(position, tail) ((position) - (tail) < SLOTS)
#endif

proctype sender() {
  byte position, seen_tail;
  do
  :: position < MESSAGES ->
    if
    :: HAS_ROOM(position, seen_tail)
    :: else ->
#ifdef tail_seen_once
      HAS_ROOM(position, seen_tail)
#else
      HAS_ROOM(position, LOAD(TAIL)); seen_tail = LOAD(TAIL)
#endif
    fi;
    STORE(0, PAYLOAD(position), position + 1, RELAXED);
    STORE(0, FLAG(position), FLAG_OF(position), FLAG_ORDER);
    position++
  :: else -> break
  od;
  /* drained() */
  LOAD(TAIL) == MESSAGES
}

proctype receiver() {
  byte position;
  do
  :: position < MESSAGES ->
    LOAD(FLAG(position)) == FLAG_OF(position);
#ifdef tail_before_read
    STORE(1, TAIL, position + 1, RELEASE);
#endif
    assert(LOAD(PAYLOAD(position)) == position + 1);
#ifndef tail_before_read
    STORE(1, TAIL, position + 1, RELEASE);
#endif
    position++
  :: else -> break
  od
}

init {
  atomic {
    byte place;
    for (place : 0 .. TAIL - 1) { run drain(0, place) }
    run drain(1, TAIL);
    run sender();
    run receiver()
  }
}
