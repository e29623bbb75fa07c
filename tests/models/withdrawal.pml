/* A rank whose call fails takes its buffers back before it returns to its program, which may use them for anything
 * (`LaneProgress::step_lane`, `Withdrawal`; platform/host/exported_memory.h). The peer moves data in place: it reads
 * the rank's input, and writes its output through a mapping of the same pages, in operations between which it looks
 * whether the rank has withdrawn. The peer may be stopped at any point and go on at any later one: then the rank gives
 * up waiting, and takes the pages of its output back.
 *
 * Buffers of other memory, which the peer reads and writes through the system, are not modelled: there each write is one
 * system call that follows a look of its own.
 *
 * Abstracts from: more peers, each of which is waited for alike; more pages; what tells the peer why it may not go on. A
 * page is one place. Taking it back is one step: the kernel exchanges the page, and stores of the peer, those under way
 * among them, reach the old one. A peer that is a thread of the same process is no part of this: it is waited for
 * without limit.
 *
 * Proved: once the call has returned, the program's output keeps what the program stores there; and nobody hears that an
 * operation is done which read what the program stored into the input since.
 *
 * MUTANT no_fence_of_peer: the peer looks before it is seen to be at work
 * MUTANT no_fence_of_rank: the rank looks before its withdrawal can be seen
 * MUTANT not_awaited: the rank returns without waiting
 * MUTANT pages_kept: a peer that does not end its operation in time keeps the pages
 * MUTANT touching_relaxed: the peer may be seen to be done before what it wrote
 * MUTANT no_second_look: the peer tells that it is done without looking again
 * MUTANT told_before_look: it looks again when it has told
 */
#define OPERATIONS 2
#define OLD 1 /* what lies in the input during the call */
#define NEW 7 /* what the program stores into its buffers afterwards */

#define RANKS 2
#define OWNER 0
#define PEER 1
#define PLACES 6
#define WITHDRAWN 0
#define TOUCHING 1
#define INPUT 2
#define PAGE 3  /* of the file, which both have mapped */
#define FRESH 4 /* the rank's own, when it has taken the page back */
#define TOLD 5
#define DEPTH 4
#include "store_buffers.pml"

#ifdef touching_relaxed
#define LET_GO_ORDER RELAXED
#else
#define LET_GO_ORDER RELEASE
#endif

byte output = PAGE; /* what the rank's addresses lead to */
bool owner_is_done, peer_is_done;

proctype owner() {
  /* At any time: the call fails. */
  STORE(OWNER, WITHDRAWN, 1, RELEASE);
#ifndef no_fence_of_rank
  FENCE(OWNER);
#endif
#ifndef not_awaited
  if
  :: LOAD(TOUCHING) == 0
#ifdef pages_kept
  :: true
#else
  :: true -> atomic { memory[FRESH] = memory[PAGE]; output = FRESH } /* the limit */
#endif
  fi;
#endif
  STORE(OWNER, output, NEW, RELAXED);
  STORE(OWNER, INPUT, NEW, RELAXED);
  FENCE(OWNER);
  owner_is_done = true
}

proctype peer() {
  byte operation, seen;
  do
  :: operation < OPERATIONS ->
    STORE(PEER, TOUCHING, 1, RELAXED);
#ifndef no_fence_of_peer
    FENCE(PEER);
#endif
    if
    :: LOAD(WITHDRAWN) == 1 -> STORE(PEER, TOUCHING, 0, LET_GO_ORDER); break
    :: else
    fi;
    seen = LOAD(INPUT);
    STORE(PEER, PAGE, 2 + operation, RELAXED);
#ifdef told_before_look
    assert(seen == OLD);
    STORE(PEER, TOLD, operation + 1, RELEASE);
#endif
#ifndef no_second_look
    if
    :: LOAD(WITHDRAWN) == 1 -> STORE(PEER, TOUCHING, 0, LET_GO_ORDER); break
    :: else
    fi;
#endif
#ifndef told_before_look
    assert(seen == OLD);
    STORE(PEER, TOLD, operation + 1, RELEASE);
#endif
    STORE(PEER, TOUCHING, 0, LET_GO_ORDER);
    operation++
  :: else -> break
  od;
  FENCE(PEER);
  peer_is_done = true
}

/* The program looks at its output at any time after the call, however late the peer goes on. */
proctype program() {
  owner_is_done && peer_is_done;
  assert(memory[output] == NEW)
}

init {
  atomic {
    memory[INPUT] = OLD;
    run drain(OWNER, WITHDRAWN);
    run drain(OWNER, INPUT);
    run drain(OWNER, PAGE);
    run drain(OWNER, FRESH);
    run drain(PEER, TOUCHING);
    run drain(PEER, PAGE);
    run drain(PEER, TOLD);
    run owner();
    run peer();
    run program()
  }
}
