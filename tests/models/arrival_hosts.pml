/* Ranks of a host that reduce as they come, one of which joins the hosts (src/kernels/host/arrival/arrival_reduction.h): it
 * exchanges the host's sum with the other hosts' in place and publishes the result. The host's sum is made along a chain
 * with two sums that take turns (arrival_chain.pml, which proves who adds when; here an addition is one step).
 *
 * One slot, used by CALLS calls; rank 0 joins the hosts. A value is 8 times the call's number plus the set of ranks
 * whose data it holds, and 64 more when it is the result. A rank that does not want the result of a call goes on at once.
 *
 * Proved: the sum that is exchanged is whole and of its call; every rank that wants a result gets that of its call;
 * nobody waits for ever, asleep ranks included; no word is reset between calls.
 *
 * MUTANT published_early: the publication may become visible before the result
 * MUTANT taken_from_sum: a rank takes what it wants when the host's sum is whole
 * MUTANT joined_late: the rank that joins the hosts adds to the next call before it exchanges this one's sum
 * MUTANT one_sum: all calls use one sum
 * MUTANT sums_unsaid: whoever makes a sum whole wakes nobody
 * MUTANT publication_unsaid: whoever publishes wakes nobody
 */
#define CALLS 4

#define RANKS 3
#define WORD 2
#define PUBLISHED 3
#define PLACES 4
#define DEPTH 3
#include "store_buffers.pml"

#ifdef one_sum
#define PLACE(call) 0
#else
#define PLACE(call) ((call) % 2)
#endif
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

inline contribute(call) {
  wait_until(memory[WORD] >= ((call) - 1) * RANKS);
  atomic {
    count = memory[WORD];
    if
    :: count == ((call) - 1) * RANKS -> value = 8 * (call) + (1 << me)
    :: else -> value = memory[PLACE(call)] + (1 << me)
    fi;
    memory[PLACE(call)] = value;
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
  value = LOAD(PLACE(call));
  assert(value == 8 * (call) + 7);
  STORE(me, PLACE(call), value + 64, RELAXED);
  STORE(me, PUBLISHED, call, PUBLISHED_ORDER);
  value = 0;
  FENCE(me); /* of the bell */
#ifndef publication_unsaid
  ring()
#endif
}

proctype joins() {
  byte me = 0, call = 1, value, count;
  do
  :: call <= CALLS ->
    contribute(call);
#ifdef joined_late
    if
    :: call > 1 -> exchange(call - 1)
    :: else
    fi;
#else
    exchange(call);
#endif
    call++
  :: else -> break
  od;
#ifdef joined_late
  exchange(CALLS)
#endif
}

proctype member(byte me) {
  byte call = 1, value, count;
  do
  :: call <= CALLS ->
    contribute(call);
    if
    :: true -> /* wants the result */
      wait_until(THERE(call));
      value = LOAD(PLACE(call));
      assert(value == 64 + 8 * call + 7);
      value = 0
    :: true
    fi;
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
