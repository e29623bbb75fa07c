/* Sleeping and waking: a rank that waits announces its sleep, asks all ranks for a fence (membarrier), looks once more,
 * and sleeps on the word of its bell; two peers store what it waits for and look, without a fence of their own, whether
 * it sleeps (src/platform/host/doorbell.h, fences.h, `Waiter::pause` in src/runtime).
 *
 * Abstracts from: the time limit of a sleep, which in the code ends it after milliseconds (so a bell that is missed here
 * costs that limit there); what the peers say (each sets a flag of its own, as messages of different peers do).
 *
 * Proved: a rank never sleeps on when what it waits for is there, whichever peer rings for whichever flag.
 *
 * MUTANT no_heavy_fence: the sleeper fences for itself only
 * MUTANT no_fence: nor for itself
 * MUTANT no_second_look: it does not look once more before it sleeps
 * MUTANT word_not_compared: it sleeps even if the word has changed since it announced its sleep
 * MUTANT word_seen_late: it reads the word after it has looked
 * MUTANT announced_once: who was woken does not announce its next sleep
 * MUTANT cleared_late: who wakes takes the announcement back after it has changed the word, when it may be a later one
 */
#define RINGERS 2
#define RANKS (RINGERS + 1)
#define SLEEPER RINGERS
#define PLACES (RINGERS + 2)
#define ANNOUNCED RINGERS
#define WORD (RINGERS + 1)
#define DEPTH 3
#include "store_buffers.pml"

bool waiting; /* in the system's queue of the word */

proctype ringer(byte rank) {
  STORE(rank, rank, 1, RELEASE);
  /* The light fence orders nothing but the compiler: the sleeper's heavy one does it. */
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
    waiting = false
  :: else
  fi
}

proctype sleeper() {
  byte seen, fenced;
  do
  :: LOAD(0) == 1 && LOAD(1) == 1 -> break
  :: else ->
#ifndef word_seen_late
    seen = LOAD(WORD);
#endif
#ifdef announced_once
    if
    :: seen == 0 -> STORE(SLEEPER, ANNOUNCED, 1, RELAXED)
    :: else
    fi;
#else
    STORE(SLEEPER, ANNOUNCED, 1, RELAXED);
#endif
#ifndef no_fence
    FENCE(SLEEPER);
#endif
#if !defined(no_fence) && !defined(no_heavy_fence)
    heavy_fence(fenced);
#endif
    if
#ifndef no_second_look
    :: LOAD(0) == 1 && LOAD(1) == 1 -> skip
#endif
    :: else ->
#ifdef word_seen_late
      seen = LOAD(WORD);
#endif
      /* The system compares the word and begins to wait in one step. */
      FENCE(SLEEPER);
      if
#ifdef word_not_compared
      :: true -> waiting = true
#else
      :: atomic { LOAD(WORD) == seen -> waiting = true }
      :: atomic { LOAD(WORD) != seen -> skip }
#endif
      fi;
      !waiting
    fi;
    STORE(SLEEPER, ANNOUNCED, 0, RELAXED)
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
    run drain(SLEEPER, ANNOUNCED);
    run sleeper()
  }
}
