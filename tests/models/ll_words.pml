/* `ll` messages on devices: words of which one half is payload and the other a flag, written and read whole, so that no
 * order between words is needed (`LowLatency` in src/kernels/device/protocol.h).
 *
 * A word is modelled as a byte, flag * 16 + payload. Abstracts from: the number of words (two stand for many) and of
 * slots; the width of flags, which in the code return to the same value after 2^32 - 2 messages.
 *
 * Proved: each message is read once, in order, with its own payload in every word.
 *
 * MUTANT first_word_only: the receiver looks at the flag of the first word and believes the second
 * MUTANT flag_not_counted: the flag is the same for all messages
 * MUTANT reused_early: the sender takes a slot that the receiver has not consumed
 * MUTANT tail_before_read: the receiver frees the slot before it has read it
 */
#define MESSAGES 5
#define SLOTS 2

#define RANKS 2
#define PLACES (2 * SLOTS + 1)
#define WORD(position, i) (2 * ((position) % SLOTS) + i)
#define TAIL (2 * SLOTS)
#define DEPTH 4
#include "store_buffers.pml"

#ifdef flag_not_counted
#define FLAG(position) 1
#else
#define FLAG(position) ((position) + 1)
#endif
#define FLAGGED(position, i) (16 * FLAG(position) + 2 * (position) + i)
#ifdef reused_early
#define HAS_ROOM(position, tail) ((position) - (tail) <= SLOTS)
#else
#define HAS_ROOM(position, tail) ((position) - (tail) < SLOTS)
#endif

proctype sender() {
  byte position;
  do
  :: position < MESSAGES ->
    HAS_ROOM(position, LOAD(TAIL));
    STORE(0, WORD(position, 0), FLAGGED(position, 0), RELAXED);
    STORE(0, WORD(position, 1), FLAGGED(position, 1), RELAXED);
    position++
  :: else -> break
  od
}

proctype receiver() {
  byte position, first, second;
  do
  :: position < MESSAGES ->
    LOAD(WORD(position, 0)) / 16 == FLAG(position);
#ifndef first_word_only
    LOAD(WORD(position, 1)) / 16 == FLAG(position);
#endif
#ifdef tail_before_read
    STORE(1, TAIL, position + 1, RELEASE);
#endif
    first = LOAD(WORD(position, 0));
    second = LOAD(WORD(position, 1));
    assert(first % 16 == FLAGGED(position, 0) % 16 && second % 16 == FLAGGED(position, 1) % 16);
    first = 0;
    second = 0;
#ifndef tail_before_read
    STORE(1, TAIL, position + 1, RELAXED); /* no fence: loads whose values are known cannot come after it */
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
