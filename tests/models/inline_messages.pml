/* Short messages in a ring of cache lines, header and payload in one piece (src/kernels/host/messages/inline_messages.h).
 *
 * A message begins at a line and takes one to LONGEST of them; one that begins near the end runs on behind the ring. Lines
 * carry arbitrary payload, so that a word of payload may look like the flag of a later message: that it is never taken
 * for one is what the zero before the header, and the sender's memory of stale lines, are for.
 *
 * Abstracts from: a line's words behind its first (the first word of a line is where a header may stand or payload may
 * be mistaken for one); what a message says beyond one payload word in its last line; the width of the counters.
 * Both ranks know every message's length, as they do in the code.
 *
 * Proved: each message is read once, in order, with its own payload, and nothing else is taken for a message; a tail that
 * is told in parts of the ring never makes both wait.
 *
 * MUTANT header_relaxed: the header may become visible before the payload
 * MUTANT no_zero: nothing is stored where the next header will stand
 * MUTANT zero_unordered: the zero is stored after the header
 * MUTANT stale_forgotten: lines of payload are not remembered as stale
 * MUTANT reused_early: the sender takes a line that the receiver has not read
 * MUTANT tail_before_read: the receiver frees the lines before it has read them
 * MUTANT tail_told_late: the tail is told once in a whole ring only
 */
#define MESSAGES 5
#define LINES 4
#define LONGEST 2
#define PARTS 2

#define RANKS 2
#define PLACES (LINES + LONGEST)
#define TAIL (LINES + LONGEST - 1)
#define DEPTH 5
#include "store_buffers.pml"

#ifdef header_relaxed
#define HEADER_ORDER RELAXED
#else
#define HEADER_ORDER RELEASE
#endif
#ifdef reused_early
#define HAS_ROOM(next, tail) ((next) - (tail) <= LINES + 1)
#else
#define HAS_ROOM(next, tail) ((next) - (tail) < LINES)
#endif
#ifdef tail_told_late
#define TOLD_LINES LINES
#else
#define TOLD_LINES (LINES / PARTS)
#endif
#define PLACE(position) ((position) % LINES)
#define FLAG(position) ((position) + 1)
#define AFTER(position, lines) \
  ((position) + (lines < LINES - PLACE(position) -> lines : LINES - PLACE(position)))

byte lines_of[MESSAGES]; /* which both ranks know */
bool deceives[MESSAGES]; /* its payload looks like the flag that will be expected where it lies */
#define WORD(position, deceiving) (deceiving -> FLAG(position + 1 + LINES) : 200)

proctype sender() {
  byte position, seen_tail, next, message, line;
  bool stale[LINES];
  do
  :: message < MESSAGES ->
    next = AFTER(position, lines_of[message]);
    if
    :: HAS_ROOM(next, seen_tail)
    :: else -> HAS_ROOM(next, LOAD(TAIL)); seen_tail = LOAD(TAIL)
    fi;
    if
    :: lines_of[message] == 2 -> STORE(0, PLACE(position) + 1, WORD(position, deceives[message]), RELAXED)
    :: else
    fi;
    d_step {
      line = position + 1;
      do
      :: line < next ->
#ifndef stale_forgotten
        stale[PLACE(line)] = true;
#endif
        line++
      :: else -> break
      od;
      line = 0
    }
#ifndef zero_unordered
    if
    :: stale[PLACE(next)] ->
#ifndef no_zero
      STORE(0, PLACE(next), 0, RELAXED);
#endif
      stale[PLACE(next)] = false
    :: else
    fi;
#endif
    STORE(0, PLACE(position), FLAG(position), HEADER_ORDER);
#ifdef zero_unordered
    if
    :: stale[PLACE(next)] -> STORE(0, PLACE(next), 0, RELAXED); stale[PLACE(next)] = false
    :: else
    fi;
#endif
    position = next;
    next = 0;
    message++
  :: else -> break
  od
}

proctype receiver() {
  byte position, before, message;
  do
  :: message < MESSAGES ->
    LOAD(PLACE(position)) == FLAG(position);
    before = position;
    position = AFTER(position, lines_of[message]);
#ifdef tail_before_read
    STORE(1, TAIL, position, RELEASE);
#endif
    if
    :: lines_of[message] == 2 -> assert(LOAD(PLACE(before) + 1) == WORD(before, deceives[message]))
    :: else
    fi;
    if
    :: (position ^ before) >= TOLD_LINES -> STORE(1, TAIL, position, RELEASE)
    :: else
    fi;
    before = 0;
    message++
  :: else -> break
  od;
  /* Nothing that was not sent looks like the next message. */
  assert(LOAD(PLACE(position)) != FLAG(position))
}

init {
  atomic {
    byte i;
    for (i : 0 .. MESSAGES - 1) {
      if
      :: lines_of[i] = 1
      :: lines_of[i] = 2
      :: lines_of[i] = 2; deceives[i] = true
      fi
    }
    for (i : 0 .. TAIL - 1) { run drain(0, i) }
    run drain(1, TAIL);
    run sender();
    run receiver()
  }
}
