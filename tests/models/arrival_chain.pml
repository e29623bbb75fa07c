/* A reduction along a chain of ranks in the order in which they come (src/kernels/host/arrival/arrival_chain.h). The partial sum
 * of a slice lies in a slot and passes from hand to hand; the slot's word tells how many contributions it holds, and
 * whether a rank is at work. A rank begins the slot's next use when all ranks have passed the last one
 * (src/kernels/host/arrival/slot_reduction.h).
 *
 * One slot or two, used in turns by CALLS slices, of one call or of several. A value is 8 times the number of the slice plus the
 * set of ranks whose data it holds. A rank that does not want a result passes the slot at once.
 * Whoever waits for a rank at work, or for one that has not passed the slot, says so, and may then sleep; a bell wakes
 * all.
 *
 * Proved: a rank adds to a sum of its own slice that is whole, each rank once; every rank that wants a result gets that
 * of its slice; then all ranks have passed the slice before, if they do so before they go on; nobody waits for ever,
 * asleep ranks included; no word is reset between uses.
 *
 * MUTANT sum_late: the count may become visible before the sum
 * MUTANT taken_torn: a rank looks whether another one is at work and says that it is in two steps
 * MUTANT gate_forgotten: a rank begins the slot's next use before all have passed it
 * MUTANT passed_early: a rank passes the slot before it has copied the result
 * MUTANT waiting_unsaid: a rank that waits for another one at work does not say so
 * MUTANT passing_unsaid: a rank that passes a slot does not wake the one that waits for that
 * MUTANT results_unsaid: whoever makes a result wakes nobody
 */
#define CALLS 4

#define RANKS 3
#define SUM (call % slots)
#define WORD (2 + call % slots)
#define PASSED(rank) (4 + (rank)) /* 2 * slices + (somebody waits) */
#define PLACES 7
#define BEFORE ((call - 1) / slots * RANKS) /* contributions to earlier slices of the slot */
#define DEPTH 2
#include "store_buffers.pml"

#define COUNT (memory[WORD] / 4)
#define AT_WORK (memory[WORD] % 2 == 1)
#define AWAITED (memory[WORD] / 2 % 2 == 1)
#define SLICES(rank) (memory[PASSED(rank)] / 2)

#ifdef sum_late
#define WRITTEN true
#else
#define WRITTEN empty(buffer[me])
#endif

#define ALL_PASSED(slice) (SLICES(0) >= (slice) && SLICES(1) >= (slice) && SLICES(2) >= (slice))

byte slots;
bit awake[RANKS]; /* 0: asleep until somebody rings; doorbell.pml proves that a bell is not lost */

inline ring() {
  atomic { awake[0] = 1; awake[1] = 1; awake[2] = 1 }
}

/* Says in one of the words of the ranks that are behind that it waits. */
inline wait_for_pass(rank) {
  memory[PASSED(rank)] = memory[PASSED(rank)] - memory[PASSED(rank)] % 2 + 1;
  awake[me] = 0
}

inline pass(slice) {
  atomic {
    empty(buffer[me]);
    was_awaited = memory[PASSED(me)] % 2;
    memory[PASSED(me)] = 2 * (slice)
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
  byte call = 1, value, count;
  bit was_awaited;
  do
  :: call <= CALLS ->
#ifndef gate_forgotten
    do
    :: atomic { SLICES(0) + slots < call -> wait_for_pass(0) } awake[me] == 1
    :: atomic { SLICES(1) + slots < call -> wait_for_pass(1) } awake[me] == 1
    :: atomic { SLICES(2) + slots < call -> wait_for_pass(2) } awake[me] == 1
    :: atomic { ALL_PASSED(call - slots) -> break }
    od;
#endif
again:
    atomic {
      if
      :: !AT_WORK ->
        count = COUNT;
#ifndef taken_torn
        memory[WORD] = memory[WORD] + 1;
#endif
        goto works
      :: AT_WORK ->
        /* Says that it waits; were the rank not at work any more, it would try again. */
#ifndef waiting_unsaid
        memory[WORD] = memory[WORD] - memory[WORD] % 4 + 3;
#endif
        awake[me] = 0
      fi
    }
    awake[me] == 1;
    goto again;
works:
#ifdef taken_torn
    memory[WORD] = memory[WORD] - memory[WORD] % 2 + 1;
#endif
    assert(count >= BEFORE && count < BEFORE + RANKS);
    if
    :: count == BEFORE -> value = 8 * call + (1 << me)
    :: else ->
      value = LOAD(SUM);
      assert(value / 8 == call && (value >> me) % 2 == 0);
      value = value + (1 << me)
    fi;
    STORE(me, SUM, value, RELAXED);
    atomic {
      WRITTEN;
      was_awaited = AWAITED;
      memory[WORD] = 4 * (count + 1);
      value = 0
    }
    if
    :: was_awaited -> ring()
    :: else
    fi;
    was_awaited = 0;
    if
#ifndef results_unsaid
    :: count + 1 == BEFORE + RANKS -> ring()
#endif
    :: else
    fi;
    count = 0;
    if
    :: true ->  /* wants the result */
      do
      :: atomic { COUNT >= BEFORE + RANKS -> break }
      :: atomic { COUNT < BEFORE + RANKS -> awake[me] = 0 }
        awake[me] == 1
      od;
#ifdef passed_early
      pass(call);
#endif
      value = LOAD(SUM);
      assert(value == 8 * call + 7 && ALL_PASSED(call - 1));
      value = 0
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
    if
    :: slots = 1
    :: slots = 2
    fi;
    awake[0] = 1; awake[1] = 1; awake[2] = 1;
    for (each : 0 .. RANKS - 1) {
      for (place : 0 .. PLACES - 1) { run drain(each, place) }
      run rank(each)
    }
  }
}
