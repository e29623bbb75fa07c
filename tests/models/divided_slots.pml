/* A connection on a device whose memory calls of short messages divide into more slots (src/kernels/gpu/block.h, depth
 * and slot): here one slot for a long message, or two for short ones. Both ends know the calls. slots.pml has the rest
 * of the protocol.
 *
 * Abstracts from: what a message says (its number stands for it, in every cell of its slot).
 *
 * Proved: each message is read whole, in order; the sender waits for nothing that has happened.
 *
 * MUTANT divided_at_once: the sender takes the slots of a new number as soon as so many would be free
 * MUTANT counts_of_before: the sender counts the slots of the call before
 * MUTANT noted_early: the sender notes the new number before it waits for room
 */
#define MESSAGES 7
#define HEADERS 4
#define CELLS 2

#define RANKS 2
#define PLACES 7
#define DEPTH 5
#define FLAG(position) (CELLS + (position) % HEADERS)
#define TAIL (CELLS + HEADERS)
#include "store_buffers.pml"

/* Calls of two short messages and of one long message in turn. */
#define IS_SHORT(position) ((position) % 3 < 2)
#define SLOTS(position) (IS_SHORT(position) -> 2 : 1)

#ifdef divided_at_once
#define DEPTH_FOR(position, last) SLOTS(position)
#else
#ifdef counts_of_before
#define DEPTH_FOR(position, last) (last)
#else
#define DEPTH_FOR(position, last) ((last) == SLOTS(position) -> (last) : 1)
#endif
#endif
#define HAS_ROOM(position, tail, last) ((position) - (tail) < DEPTH_FOR(position, last))

proctype sender() {
  byte position, seen_tail;
  byte last = 1;
  do
  :: position < MESSAGES ->
#ifdef noted_early
    last = SLOTS(position);
#endif
    if
    :: HAS_ROOM(position, seen_tail, last)
    :: else ->
      HAS_ROOM(position, LOAD(TAIL), last); seen_tail = LOAD(TAIL)
    fi;
    if
    :: IS_SHORT(position) -> STORE(0, position % CELLS, position + 1, RELAXED)
    :: else -> STORE(0, 0, position + 1, RELAXED); STORE(0, 1, position + 1, RELAXED)
    fi;
    STORE(0, FLAG(position), position + 1, RELEASE);
    last = SLOTS(position);
    position++
  :: else -> break
  od;
  LOAD(TAIL) == MESSAGES
}

proctype receiver() {
  byte position;
  do
  :: position < MESSAGES ->
    LOAD(FLAG(position)) == position + 1;
    if
    :: IS_SHORT(position) -> assert(LOAD(position % CELLS) == position + 1)
    :: else -> assert(LOAD(0) == position + 1); assert(LOAD(1) == position + 1)
    fi;
    STORE(1, TAIL, position + 1, RELEASE);
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
