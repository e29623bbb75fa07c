/* What goes to two ranks alike lies once, in the slot of the first connection; the message on the second connection says
 * where (src/kernels/host/messages/shared_slots.h). The sender fills that slot again when both have consumed.
 *
 * As slots.pml, with one sender and two receivers; receiver 1 reads the payload in receiver 0's slot. Two messages
 * of three are lent, so that the two connections are at different positions.
 *
 * Proved: both receivers read each message once, in order, with its own payload; the sender waits for nothing that has
 * happened.
 *
 * MUTANT loan_forgotten: the sender does not ask whether the borrower still reads the slot
 * MUTANT loan_until_read: it asks whether the borrower has begun the message instead of consumed it
 * MUTANT flag_relaxed: the borrower's flag may become visible before the payload
 * MUTANT lender_counted: the loan notes the position on the lender's connection instead of the borrower's
 */
#define MESSAGES 7
#define SLOTS 2

#define RANKS 3
#define SENDER 2
#define PLACES (3 * SLOTS + 2)
#define PAYLOAD(position) ((position) % SLOTS)
#define FLAG(receiver, position) (SLOTS + SLOTS * (receiver) + (position) % SLOTS)
#define TAIL(receiver) (3 * SLOTS + receiver)
#define DEPTH 4
#include "store_buffers.pml"

#ifdef flag_relaxed
#define FLAG_ORDER RELAXED
#else
#define FLAG_ORDER RELEASE
#endif
#ifdef loan_until_read
#define CONSUMED(position) (LOAD(TAIL(1)) >= (position))
#else
#define CONSUMED(position) (LOAD(TAIL(1)) > (position))
#endif
#ifdef lender_counted
#define NOTED message
#else
#define NOTED borrowed
#endif
#define IS_LENT(message) ((message) % 3 != 1)
#define LENT(number) ((3 * (number) + 1) / 2) /* the message that was lent after so many others */
#define NONE 255

byte place_told[SLOTS]; /* where borrower's messages lie; written before and read after the flag, as the payload is */

proctype sender() {
  byte message, borrowed; /* positions of the two connections */
  byte loans[SLOTS] = NONE;
  do
  :: message < MESSAGES ->
    message - LOAD(TAIL(0)) < SLOTS;
#ifndef loan_forgotten
    if
    :: loans[message % SLOTS] == NONE
    :: else -> CONSUMED(loans[message % SLOTS]); loans[message % SLOTS] = NONE
    fi;
#endif
    if
    :: IS_LENT(message) -> borrowed - LOAD(TAIL(1)) < SLOTS
    :: else
    fi;
    STORE(SENDER, PAYLOAD(message), message + 1, RELAXED);
    STORE(SENDER, FLAG(0, message), message + 1, RELEASE);
    if
    :: IS_LENT(message) ->
      place_told[borrowed % SLOTS] = PAYLOAD(message);
      loans[message % SLOTS] = NOTED;
      STORE(SENDER, FLAG(1, borrowed), borrowed + 1, FLAG_ORDER);
      borrowed++
    :: else
    fi;
    message++
  :: else -> break
  od
}

proctype owner() {
  byte position;
  do
  :: position < MESSAGES ->
    LOAD(FLAG(0, position)) == position + 1;
    assert(LOAD(PAYLOAD(position)) == position + 1);
    STORE(0, TAIL(0), position + 1, RELEASE);
    position++
  :: else -> break
  od
}

proctype borrower() {
  byte position, place;
  do
  :: LENT(position) < MESSAGES ->
    LOAD(FLAG(1, position)) == position + 1;
    place = place_told[position % SLOTS];
    assert(LOAD(place) == LENT(position) + 1);
    STORE(1, TAIL(1), position + 1, RELEASE);
    position++
  :: else -> break
  od
}

init {
  atomic {
    byte place;
    for (place : 0 .. TAIL(0) - 1) { run drain(SENDER, place) }
    run drain(0, TAIL(0));
    run drain(1, TAIL(1));
    run sender();
    run owner();
    run borrower()
  }
}
