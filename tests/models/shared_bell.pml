/* Ranks that sleep at one shared bell (src/platform/host/doorbell.h, SleepingPlace): whoever rings it wakes all of them.
 * As in doorbell.pml each announces its sleep, asks all ranks for a fence, looks once more and sleeps on the word; two
 * peers store what they wait for and look whether anybody sleeps. A sleeper does not take its announcement back, as the
 * other one may sleep on.
 *
 * Abstracts from: the ranks' own bells, which are those of doorbell.pml; the time limit of a sleep.
 *
 * Proved: no rank sleeps on when what it waits for is there. One rank waits for both peers, the other one for the second.
 *
 * MUTANT no_heavy_fence: a sleeper fences for itself only
 * MUTANT no_second_look: it does not look once more before it sleeps
 * MUTANT word_not_compared: it sleeps even if the word has changed since it announced its sleep
 * MUTANT taken_back: who wakes up takes the announcement back, though the other one may sleep on
 * MUTANT cleared_late: who wakes clears the announcement after it has changed the word, when it may be a later one
 */
#define RINGERS 2
#define SLEEPERS 2
#define RANKS (RINGERS + SLEEPERS)
#define PLACES (RINGERS + 2)
#define ANNOUNCED RINGERS
#define WORD (RINGERS + 1)
#define DEPTH 3
#include "store_buffers.pml"

bool waiting[SLEEPERS]; /* in the system's queue of the word */

proctype ringer(byte rank) {
  STORE(rank, rank, 1, RELEASE);
  /* The light fence orders nothing but the compiler: the sleepers' heavy one does it. */
  if
  :: LOAD(ANNOUNCED) == 1 ->
#ifndef cleared_late
    STORE(rank, ANNOUNCED, 0, RELAXED);
#endif
    ADD_RELEASE(rank, WORD);
#ifdef cleared_late
    STORE(rank, ANNOUNCED, 0, RELAXED);
#endif
    FENCE(rank); /* entering the system */
    atomic {
      waiting[0] = false;
      waiting[1] = false
    }
  :: else
  fi
}

#define IS_THERE(me) (LOAD(1) == 1 && (me == 1 || LOAD(0) == 1))

proctype sleeper(byte me) {
  byte seen, fenced;
  do
  :: IS_THERE(me) -> break
  :: else ->
    seen = LOAD(WORD);
    STORE(RINGERS + me, ANNOUNCED, 1, RELAXED);
    FENCE(RINGERS + me);
#ifndef no_heavy_fence
    heavy_fence(fenced);
#endif
    if
#ifndef no_second_look
    :: IS_THERE(me) -> skip
#endif
    :: else ->
      /* The system compares the word and begins to wait in one step. */
      FENCE(RINGERS + me);
      if
#ifdef word_not_compared
      :: true -> waiting[me] = true
#else
      :: atomic { LOAD(WORD) == seen -> waiting[me] = true }
      :: atomic { LOAD(WORD) != seen -> skip }
#endif
      fi;
      !waiting[me]
    fi;
#ifdef taken_back
    STORE(RINGERS + me, ANNOUNCED, 0, RELAXED)
#endif
  od
}

init {
  atomic {
    byte rank;
    for (rank : 0 .. RINGERS - 1) {
      run drain(rank, rank);
      run drain(rank, ANNOUNCED);
      run ringer(rank)
    }
    for (rank : 0 .. SLEEPERS - 1) {
      run drain(RINGERS + rank, ANNOUNCED);
      run sleeper(rank)
    }
  }
}
