/* A reduction along a chain of ranks in the order in which they come (src/kernels/host/arrival/arrival_chain.h). The partial sum
 * of a slice lies in a slot and passes from hand to hand; the slot's word tells how many contributions it holds, and
 * whether a rank is at work. Two sums take turns.
 *
 * One slot, used by CALLS calls; a call that goes round the slots uses a slot in the same way. A value is 8 times the
 * call's number plus the set of ranks whose data it holds. A rank that does not want the result of a call goes on at
 * once. Whoever waits for a rank at work says so, and may then sleep; a bell wakes all.
 *
 * Proved: a rank adds to a sum of its own call that is whole, each rank once; every rank that wants a result gets that
 * of its call; nobody waits for ever, asleep ranks included; no word is reset between calls.
 *
 * MUTANT sum_late: the count may become visible before the sum
 * MUTANT taken_torn: a rank looks whether another one is at work and says that it is in two steps
 * MUTANT one_sum: all calls use one sum
 * MUTANT gate_forgotten: a rank contributes to a call before the last one has all contributions
 * MUTANT waiting_unsaid: a rank that waits for another one at work does not say so
 * MUTANT results_unsaid: whoever makes a result wakes nobody
 */
#define CALLS 3

#define RANKS 3
#define SUM(call) ((call) % 2)
#define WORD 2
#define PLACES 3
#define DEPTH 2
#include "store_buffers.pml"

#define COUNT (memory[WORD] / 4)
#define AT_WORK (memory[WORD] % 2 == 1)
#define AWAITED (memory[WORD] / 2 % 2 == 1)

#ifdef one_sum
#define PLACE(call) 0
#else
#define PLACE(call) SUM(call)
#endif
#ifdef sum_late
#define WRITTEN true
#else
#define WRITTEN empty(buffer[me])
#endif

bit awake[RANKS]; /* 0: asleep until somebody rings; doorbell.pml proves that a bell is not lost */

inline ring() {
  atomic { awake[0] = 1; awake[1] = 1; awake[2] = 1 }
}

proctype rank(byte me) {
  byte call = 1, value, count;
  bit was_awaited;
  do
  :: call <= CALLS ->
again:
    atomic {
      if
#ifndef gate_forgotten
      :: COUNT < (call - 1) * RANKS -> awake[me] = 0
#endif
#ifdef gate_forgotten
      :: !AT_WORK ->
#else
      :: COUNT >= (call - 1) * RANKS && !AT_WORK ->
#endif
        count = COUNT;
#ifndef taken_torn
        memory[WORD] = memory[WORD] + 1;
#endif
        goto works
      :: COUNT >= (call - 1) * RANKS && AT_WORK ->
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
    if
    :: count == (call - 1) * RANKS -> value = 8 * call + (1 << me)
    :: else ->
      value = LOAD(PLACE(call));
      assert(value / 8 == call && (value >> me) % 2 == 0);
      value = value + (1 << me)
    fi;
    STORE(me, PLACE(call), value, RELAXED);
    atomic {
      WRITTEN;
      was_awaited = AWAITED;
      memory[WORD] = 4 * (count + 1)
    }
    if
    :: was_awaited -> ring()
    :: else
    fi;
    if
#ifndef results_unsaid
    :: count + 1 == call * RANKS -> ring()
#endif
    :: else
    fi;
    if
    :: true ->  /* wants the result */
      do
      :: atomic { COUNT >= call * RANKS -> break }
      :: atomic { COUNT < call * RANKS -> awake[me] = 0 }
        awake[me] == 1
      od;
      value = LOAD(PLACE(call));
      assert(value == 8 * call + 7)
    :: true
    fi;
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
