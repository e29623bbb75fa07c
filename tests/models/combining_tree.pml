/* A reduction over a fixed tree of ranks, each node of which is evaluated by whichever of its two sides comes second
 * (src/kernels/host/arrival/combining_tree.h). The side that comes first leaves its operand and goes; a rank climbs as
 * long as it is second. A rank begins the slot's next use when all ranks have passed the last one
 * (src/kernels/host/arrival/slot_reduction.h; arrival_chain.pml has more than one slot).
 *
 * Three ranks: node 1 joins 0 and 1, which share a place; node 2 joins these with 2, which has a place of its own. A
 * node's sum goes to the place of its lowest rank. A value is 8 times the number of the use plus the set of ranks whose
 * data it holds. A rank that does not want a result passes the slot at once. Whoever waits says so, and may then sleep.
 *
 * Proved: an operand is read only when it is that of this use and whole; every rank gets every contribution once, in
 * every use whose result it wants; nobody waits for ever, asleep ranks included; no word is reset between uses.
 *
 * MUTANT operand_late: the word of a node may become visible before the operand
 * MUTANT done_relaxed: the word that tells the result may become visible before the result
 * MUTANT second_uncounted: the side that finds the other there does not count itself
 * MUTANT gate_forgotten: a rank begins the slot's next use before all have passed it
 * MUTANT passed_early: a rank passes the slot before it has copied the result
 * MUTANT count_torn: a side that has a place of its own looks and counts in two steps
 * MUTANT place_taken: a rank does not look whether the one that shares its place is at work
 * MUTANT waiting_unsaid: a rank that waits for the one that shares its place does not say so
 * MUTANT passing_unsaid: a rank that passes a slot does not wake the one that waits for that
 * MUTANT results_unsaid: whoever makes a result wakes nobody
 */
#define CALLS 3

#define RANKS 3
#define PLACE(rank) ((rank) / 2)
#define NODE(number) (1 + (number)) /* 8 * uses + state */
#define DONE 4
#define PASSED(rank) (5 + (rank)) /* 2 * uses + (somebody waits) */
#define PLACES 8
#define DEPTH 3
#include "store_buffers.pml"

#define AT_WORK 1
#define AWAITED 2
#define THERE 4
#define NEXT_USE 8
#define BEFORE (8 * (call - 1))
#define USES(rank) (memory[PASSED(rank)] / 2)
#define ALL_PASSED(use) (USES(0) >= (use) && USES(1) >= (use) && USES(2) >= (use))

#ifdef operand_late
#define WRITTEN true
#else
#define WRITTEN empty(buffer[me])
#endif
#ifdef done_relaxed
#define DONE_ORDER RELAXED
#else
#define DONE_ORDER RELEASE
#endif

bit awake[RANKS]; /* 0: asleep until somebody rings; doorbell.pml proves that a bell is not lost */

inline ring() {
  atomic { awake[0] = 1; awake[1] = 1; awake[2] = 1 }
}

inline wait_for_pass(rank) {
  memory[PASSED(rank)] = memory[PASSED(rank)] - memory[PASSED(rank)] % 2 + 1;
  awake[me] = 0
}

inline pass(use) {
  atomic {
    empty(buffer[me]);
    was_awaited = memory[PASSED(me)] % 2;
    memory[PASSED(me)] = 2 * (use)
  }
  if
#ifndef passing_unsaid
  :: was_awaited -> ring()
#endif
  :: else
  fi;
  was_awaited = 0
}

proctype rank(byte me) {
  byte call = 1, value, node, sibling, old;
  bit was_awaited;
  do
  :: call <= CALLS ->
#ifndef gate_forgotten
    do
    :: atomic { USES(0) < call - 1 -> wait_for_pass(0) } awake[me] == 1
    :: atomic { USES(1) < call - 1 -> wait_for_pass(1) } awake[me] == 1
    :: atomic { USES(2) < call - 1 -> wait_for_pass(2) } awake[me] == 1
    :: atomic { ALL_PASSED(call - 1) -> break }
    od;
#endif
    value = 8 * call + (1 << me);
    if
    :: me == 2 -> node = 2; sibling = 0; goto climb
    :: else -> node = 1; sibling = 0
    fi;
shared:
    /* The ranks that share a place. */
    atomic {
      old = memory[NODE(1)] - BEFORE;
      if
      :: old == THERE -> old = 0; goto climb
#ifdef place_taken
      :: else -> memory[NODE(1)] = BEFORE + AT_WORK
#else
      :: old == 0 -> memory[NODE(1)] = BEFORE + AT_WORK
      :: else ->
#ifndef waiting_unsaid
        memory[NODE(1)] = BEFORE + AT_WORK + AWAITED;
#endif
        old = 0;
        awake[me] = 0;
        goto asleep
#endif
      fi
    }
    STORE(me, PLACE(0), value, RELAXED);
    atomic {
      WRITTEN;
      was_awaited = (memory[NODE(1)] - BEFORE) / AWAITED;
      memory[NODE(1)] = BEFORE + THERE
    }
    if
    :: was_awaited -> awake[1 - me] = 1
    :: else
    fi;
    was_awaited = 0;
    goto wait;
asleep:
    awake[me] == 1;
    goto shared;
climb:
    if
    :: atomic { memory[NODE(node)] - BEFORE == THERE ->
#ifndef second_uncounted
         memory[NODE(node)] = BEFORE + NEXT_USE
#endif
       }
    :: else ->
      /* Only node 2: the place is this side's own. */
      if
      :: me == 2 -> STORE(me, PLACE(2), value, RELAXED)
      :: else
      fi;
#ifdef count_torn
      empty(buffer[me]);
      old = memory[NODE(2)] - BEFORE;
      memory[NODE(2)] = BEFORE + old + THERE;
#else
      atomic { WRITTEN; old = memory[NODE(2)] - BEFORE; memory[NODE(2)] = BEFORE + old + THERE }
#endif
      if
      :: old == 0 -> goto wait
      :: else -> old = 0
      fi
    fi;
    assert(LOAD(PLACE(sibling)) / 8 == call);
    value = value + LOAD(PLACE(sibling)) % 8;
    STORE(me, PLACE(0), value, RELAXED);
    if
    :: node == 1 -> node = 2; sibling = 2; goto climb
    :: else
    fi;
    STORE(me, DONE, call, DONE_ORDER);
    FENCE(me); /* of the bell */
#ifndef results_unsaid
    ring();
#endif
wait:
    value = 0; node = 0; sibling = 0; old = 0;
    if
    :: true ->  /* wants the result */
      do
      :: atomic { LOAD(DONE) >= call -> break }
      :: atomic { LOAD(DONE) < call -> awake[me] = 0 }
        awake[me] == 1
      od;
#ifdef passed_early
      pass(call);
#endif
      assert(LOAD(PLACE(0)) == 8 * call + 7)
    :: true
    fi;
#ifndef passed_early
    pass(call);
#endif
    call++
  :: else -> break
  od
}

init {
  atomic {
    byte each, place;
    awake[0] = 1; awake[1] = 1; awake[2] = 1;
    for (each : 0 .. RANKS - 1) {
      for (place : 0 .. PLACES - 1) { run drain(each, place) }
      run rank(each)
    }
  }
}
