/* A reduction by the rank that comes first (src/kernels/host/arrival/arrival_leader.h). Ranks bind their roles with one
 * fetch-add each: the first of a call leads. All others leave their data in their areas; the leader adds what is there.
 *
 * One slice. A value is 8 times the call's number plus the set of ranks whose data it holds. The model keeps the words'
 * numbers small: `ready` counts the slices of a rank in all calls, which is the call's number with one slice each. A
 * rank that does not want the result of a call goes on at once.
 *
 * Proved: one rank leads each call; it adds data of its call only, of each rank once; every rank that wants a result
 * gets that of its call; nobody waits for ever; no word is reset between calls.
 *
 * MUTANT data_late: `ready` may become visible before the data
 * MUTANT done_relaxed: `done` may become visible before the result
 * MUTANT gate_forgotten: a rank binds its role before the last call's leader has ended
 * MUTANT role_torn: a rank reads and counts arrivals in two steps
 * MUTANT ended_early: the leader ends its call when the first data are in
 */
#define CALLS 3

#define RANKS 3
#define AREA(rank) (rank)
#define READY(rank) (3 + (rank))
#define RESULT 6
#define DONE 7
#define ENDED 8
#define ARRIVALS 9
#define PLACES 10
#define DEPTH 4
#include "store_buffers.pml"

#ifdef data_late
#define READY_ORDER RELAXED
#else
#define READY_ORDER RELEASE
#endif
#ifdef done_relaxed
#define DONE_ORDER RELAXED
#else
#define DONE_ORDER RELEASE
#endif
#ifdef ended_early
#define ENOUGH 2
#else
#define ENOUGH RANKS
#endif

#define BIT(value, rank) (((value) >> (rank)) % 2)

inline merge(other) {
  if
  :: other != me && BIT(value, other) == 0 && LOAD(READY(other)) >= call ->
    assert(LOAD(AREA(other)) == 8 * call + (1 << other));
    value = value + (1 << other);
    holds++
  :: else
  fi
}

proctype rank(byte me) {
  byte call = 1, value, place, holds;
  do
  :: call <= CALLS ->
#ifndef gate_forgotten
    LOAD(ENDED) >= call - 1;
#endif
#ifdef role_torn
    place = memory[ARRIVALS];
    memory[ARRIVALS] = place + 1;
#else
    atomic { place = memory[ARRIVALS]; memory[ARRIVALS] = place + 1 }
#endif
    assert(place >= (call - 1) * RANKS && place < call * RANKS);
    if
    :: place == (call - 1) * RANKS ->
      value = 8 * call + (1 << me);
      holds = 1;
      do
      :: holds < ENOUGH ->
        /* Waits until something is there. */
        (me != 0 && BIT(value, 0) == 0 && LOAD(READY(0)) >= call) ||
          (me != 1 && BIT(value, 1) == 0 && LOAD(READY(1)) >= call) ||
          (me != 2 && BIT(value, 2) == 0 && LOAD(READY(2)) >= call);
        merge(0);
        merge(1);
        merge(2)
      :: else -> break
      od;
      STORE(me, RESULT, value, RELAXED);
      STORE(me, DONE, call, DONE_ORDER);
      STORE(me, ENDED, call, RELEASE)
    :: else ->
      STORE(me, AREA(me), 8 * call + (1 << me), RELAXED);
      STORE(me, READY(me), call, READY_ORDER)
    fi;
    if
    :: true ->  /* wants the result */
      LOAD(DONE) >= call;
      assert(LOAD(RESULT) == 8 * call + 7)
    :: true
    fi;
    value = 0; place = 0; holds = 0;
    call++
  :: else -> break
  od
}

init {
  atomic {
    byte each, place;
    for (each : 0 .. RANKS - 1) {
      for (place : 0 .. PLACES - 1) { run drain(each, place) }
      run rank(each)
    }
  }
}
