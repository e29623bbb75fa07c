/* Ranks of a host that reduce as they come, one of which joins the hosts (src/kernels/host/arrival/arrival_reduction.h): it
 * exchanges the host's sum with the other hosts' in place and publishes the result. The host's sum is made along a chain
 * (arrival_chain.pml, which proves who adds when; here an addition is one step), in a slot that is used again when all
 * ranks have passed it (src/kernels/host/arrival/slot_reduction.h).
 *
 * One slot, used CALLS times; rank 0 joins the hosts. A value is 8 times the number of the use plus the set of ranks
 * whose data it holds, and 64 more when it is the result. A rank that does not want a result passes the slot at once.
 *
 * Proved: the sum that is exchanged is whole and of its use; every rank that wants a result gets that of its use; nobody
 * waits for ever, asleep ranks included; no word is reset between uses.
 *
 * MUTANT published_early: the publication may become visible before the result
 * MUTANT taken_from_sum: a rank takes what it wants when the host's sum is whole
 * MUTANT joined_late: the rank that joins the hosts passes the slot before it exchanges the sum
 * MUTANT gate_forgotten: a rank adds to the slot's next use before all have passed it
 * MUTANT sums_unsaid: whoever makes a sum whole wakes nobody
 * MUTANT publication_unsaid: whoever publishes wakes nobody
 * MUTANT passing_unsaid: whoever passes the slot wakes nobody
 */
#define CALLS 3

#define RANKS 3
#define SUM 0
#define WORD 1
#define PUBLISHED 2
#define PASSED(rank) (3 + (rank)) /* 2 * uses + (somebody waits) */
#define USES(rank) (memory[PASSED(rank)] / 2)
#define PLACES 6
#define DEPTH 3
#include "store_buffers.pml"

#ifdef published_early
#define PUBLISHED_ORDER RELAXED
#else
#define PUBLISHED_ORDER RELEASE
#endif
#ifdef taken_from_sum
#define THERE(call) (memory[WORD] >= (call) * RANKS)
#else
#define THERE(call) (memory[PUBLISHED] >= (call))
#endif

bit awake[RANKS]; /* 0: asleep until somebody rings; doorbell.pml proves that a bell is not lost */

inline ring() {
  atomic { awake[0] = 1; awake[1] = 1; awake[2] = 1 }
}

/* Until `condition`. */
inline wait_until(condition) {
  do
  :: atomic { condition -> break }
  :: atomic { !(condition) -> awake[me] = 0 }
    awake[me] == 1
  od
}

inline wait_for_pass(rank) {
  memory[PASSED(rank)] = memory[PASSED(rank)] - memory[PASSED(rank)] % 2 + 1;
  awake[me] = 0
}

inline contribute(call) {
#ifndef gate_forgotten
  do
  :: atomic { USES(0) < (call) - 1 -> wait_for_pass(0) } awake[me] == 1
  :: atomic { USES(1) < (call) - 1 -> wait_for_pass(1) } awake[me] == 1
  :: atomic { USES(2) < (call) - 1 -> wait_for_pass(2) } awake[me] == 1
  :: atomic { USES(0) >= (call) - 1 && USES(1) >= (call) - 1 && USES(2) >= (call) - 1 -> break }
  od;
#endif
  atomic {
    count = memory[WORD];
    if
    :: count == ((call) - 1) * RANKS -> value = 8 * (call) + (1 << me)
    :: else -> value = memory[SUM] + (1 << me)
    fi;
    memory[SUM] = value;
    memory[WORD] = count + 1;
    value = 0
  }
  if
#ifndef sums_unsaid
  :: count + 1 == (call) * RANKS -> ring()
#endif
  :: else
  fi;
  count = 0
}

inline exchange(call) {
  wait_until(memory[WORD] >= (call) * RANKS);
  value = LOAD(SUM);
  assert(value == 8 * (call) + 7);
  STORE(me, SUM, value + 64, RELAXED);
  STORE(me, PUBLISHED, call, PUBLISHED_ORDER);
  value = 0;
  FENCE(me); /* of the bell */
#ifndef publication_unsaid
  ring()
#endif
}

inline pass(call) {
  atomic {
    empty(buffer[me]);
    count = memory[PASSED(me)] % 2;
    memory[PASSED(me)] = 2 * (call)
  }
  if
#ifndef passing_unsaid
  :: count == 1 -> ring()
#endif
  :: else
  fi;
  count = 0
}

proctype joins() {
  byte me = 0, call = 1, value, count;
  do
  :: call <= CALLS ->
    contribute(call);
#ifdef joined_late
    pass(call);
    exchange(call);
#else
    exchange(call);
    pass(call);
#endif
    call++
  :: else -> break
  od
}

proctype member(byte me) {
  byte call = 1, value, count;
  do
  :: call <= CALLS ->
    contribute(call);
    if
    :: true -> /* wants the result */
      wait_until(THERE(call));
      value = LOAD(SUM);
      assert(value == 64 + 8 * call + 7);
      value = 0
    :: true
    fi;
    pass(call);
    call++
  :: else -> break
  od
}

init {
  atomic {
    byte place;
    awake[0] = 1; awake[1] = 1; awake[2] = 1;
    for (place : 0 .. PLACES - 1) { run drain(0, place) }
    run joins();
    run member(1);
    run member(2)
  }
}
