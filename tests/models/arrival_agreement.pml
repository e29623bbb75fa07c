/* Over hosts: from which call on a decision of rank 0 holds (src/runtime/host/choosing/arrival_agreement.h). Ranks 0 and 1
 * share a host; rank 2 reads a mirror, which two agents keep: each copies what it has seen at any later time, as an agent
 * does that was stopped and has a successor.
 *
 * A decision names the form (0 or 1) and how many calls after its point the next point is. All odd calls need data of
 * every rank. Even calls need nobody: ranks may be ahead of one another in them.
 *
 * Proved: all ranks serve each call in the same form; nobody waits for ever.
 *
 * MUTANT at_once: a decision holds as soon as it is seen
 * MUTANT decides_early: rank 0 decides again before the last decision holds
 * MUTANT any_call: a call that needs nobody may be a point
 * MUTANT unnumbered: at a point a rank takes whatever decision it sees
 * MUTANT never_there: rank 0 may come to a point without a decision
 */
#define CALLS 7
#define RANKS 3

byte word = 0, mirror = 0; /* 8 * number + 2 * (calls to the next point - 1) + form */
byte came[CALLS + 1];      /* ranks that have begun the call */
byte form_of[CALLS + 1];   /* 1 + the form in which it is served; 0: nobody has begun it */
byte ended = 0;            /* ranks */

#define SEEN (me == 2 -> mirror : word)
#ifdef any_call
#define MAY_BE_POINT(call) 1
#else
#define MAY_BE_POINT(call) ((call) % 2 == 1)
#endif
#ifdef decides_early
#define MAY_DECIDE 1
#else
#define MAY_DECIDE (decided == settled)
#endif

inline decide() {
  atomic {
    decided++;
    if
    :: word = 8 * decided
    :: word = 8 * decided + 1
    :: word = 8 * decided + 2
    :: word = 8 * decided + 3
    fi
  }
}

inline settle() {
  atomic {
#ifdef unnumbered
    SEEN != 0 ->
#else
    SEEN / 8 == settled + 1 ->
#endif
    settled++;
    form = SEEN % 2;
    next = call + 1 + (SEEN / 2) % 2
  }
}

proctype rank(byte me) {
  byte call = 1, next = 3, settled = 0, decided = 0, form = 0;
  do
  :: call <= CALLS ->
    if
    :: me == 0 && MAY_DECIDE && decided < 15 -> decide()
#ifndef never_there
    :: !(me == 0 && decided == settled && call >= next && MAY_BE_POINT(call))
#else
    :: true
#endif
    fi;
#ifdef at_once
    form = SEEN % 2;
#else
    if
    :: call >= next && MAY_BE_POINT(call) -> settle()
    :: else
    fi;
#endif
    atomic {
      assert(form_of[call] == 0 || form_of[call] == 1 + form);
      form_of[call] = 1 + form;
      came[call]++
    }
    if
    :: call % 2 == 1 -> came[call] == RANKS
    :: else
    fi;
    call++
  :: else -> break
  od;
  ended++
}

proctype agent() {
  byte seen;
end:
  do
  :: ended < RANKS && mirror != word -> seen = word; mirror = seen
  :: ended == RANKS -> break
  od
}

init {
  atomic { run rank(0); run rank(1); run rank(2); run agent(); run agent() }
}
