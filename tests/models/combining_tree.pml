/* A reduction over a fixed tree of ranks, each node of which is evaluated by whichever of its two sides comes second
 * (src/kernels/host/arrival/combining_tree.h). The side that comes first leaves its operand in memory and goes; a rank climbs as
 * long as it is second.
 *
 * Three ranks: node 1 joins 0 and 1, node 2 joins these with 2. A value is 8 times the call's number plus the set of
 * ranks whose data it holds.
 *
 * A rank that does not want the result of a call goes on at once. It begins the next call when the result of this one is
 * there.
 *
 * Proved: an operand is read only when it is that of this call and whole; every rank gets every contribution once, in
 * every call whose result it wants; nobody waits for ever; no word is reset between calls.
 *
 * MUTANT operand_late: the count of a node may become visible before the operand
 * MUTANT done_relaxed: the word that tells the result may become visible before the result
 * MUTANT second_uncounted: the side that finds the other there does not count itself
 * MUTANT gate_forgotten: a rank begins the next call before the result of this one is there
 * MUTANT count_torn: a side that comes first looks and counts in two steps
 */
#define CALLS 3

#define RANKS 3
#define AREA(rank) (rank)
#define RESULT 3
#define NODE(number) (3 + (number))
#define DONE 6
#define PLACES 7
#define DEPTH 4
#include "store_buffers.pml"

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

proctype rank(byte me) {
  byte call = 1, value, node, own, sibling, before;
  do
  :: call <= CALLS ->
#ifndef gate_forgotten
    LOAD(DONE) == call - 1;
#endif
    value = 8 * call + (1 << me);
    if
    :: me < 2 -> node = 1; own = me; sibling = 1 - me
    :: else -> node = 2; own = 2; sibling = 0
    fi;
climb:
    before = LOAD(NODE(node));
    if
    :: before == 2 * call - 1 ->
#ifndef second_uncounted
      STORE(me, NODE(node), 2 * call, RELAXED)
#else
      skip
#endif
    :: else ->
      STORE(me, AREA(own), value, RELAXED);
#ifdef count_torn
      empty(buffer[me]);
      before = memory[NODE(node)];
      memory[NODE(node)] = before + 1;
#else
      atomic { WRITTEN; before = memory[NODE(node)]; memory[NODE(node)] = before + 1 }
#endif
      if
      :: before == 2 * call - 2 -> goto wait
      :: else
      fi
    fi;
    assert(LOAD(AREA(sibling)) / 8 == call);
    value = value + LOAD(AREA(sibling)) % 8;
    if
    :: node == 1 -> node = 2; own = 0; sibling = 2; goto climb
    :: else
    fi;
    STORE(me, RESULT, value, RELAXED);
    STORE(me, DONE, call, DONE_ORDER);
wait:
    if
    :: true ->  /* wants the result */
      LOAD(DONE) == call;
      assert(LOAD(RESULT) == 8 * call + 7)
    :: true
    fi;
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
