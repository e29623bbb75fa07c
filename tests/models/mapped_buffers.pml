/* Ranks that compare their buffers at the beginning of a call, and map those they see for the first time
 * (src/runtime/transport/mapped/mapped_buffers.h): each shows a card, reads all cards, and, if somebody showed a buffer that is new,
 * maps it and shows whether it could. Card and verdict n lie on board n mod 2.
 *
 * Between meetings each rank may keep its buffer, free it and get another one (which may take the place of the freed one:
 * the same inode), or pass memory that cannot be mapped. Any mapping may fail. Ranks are kept in step by the meetings
 * alone: what the calls themselves add is left out, so that a rank may be as far ahead as the boards allow.
 *
 * Abstracts from: frees of rank 0 (the protocol is the same for both); the second buffer of a call; sizes and offsets; the system, in which mapping a buffer yields what the
 * owner's descriptor is at that time (an object's number stands for it).
 *
 * Proved: all ranks come to the same answer in every meeting; where it is `mapped`, each has every peer's present buffer
 * mapped, not an earlier one; no card is overwritten while it is read, and nobody waits for ever.
 *
 * MUTANT one_board: all cards lie on one board
 * MUTANT tag_relaxed: a card's number may become visible before the card
 * MUTANT freed_forgotten: what was mapped stays known when its owner has freed it
 * MUTANT failure_kept: a rank that could not map goes by its own buffers only
 * MUTANT verdicts_not_awaited: a rank concludes when it has mapped
 */
#define MEETINGS 3

#define RANKS 2
#define OTHER (1 - me)
#define DEPTH 4
#define TAG 0
#define INODE 1
#define FREED 2
#define VERDICT 3
#define BOARD_PLACES 4
#ifdef one_board
#define AT(rank, n, what) (BOARD_PLACES * (rank) + what)
#else
#define AT(rank, n, what) (BOARD_PLACES * (2 * (rank) + (n) % 2) + what)
#endif
#define PLACES (BOARD_PLACES * 2 * RANKS)
#include "store_buffers.pml"

#ifdef tag_relaxed
#define TAG_ORDER RELAXED
#else
#define TAG_ORDER RELEASE
#endif

/* What exists, and what the program passes: unseen by the protocol. */
#define NONE 0
byte object[RANKS] = 1; /* which a rank's descriptor is of now; never the same twice */
byte inode[RANKS] = 1;  /* its number, which may be that of a freed one */
byte passed[RANKS];     /* the object that a rank passes in its meeting, NONE: memory that cannot be mapped */
byte passed_in[RANKS * (MEETINGS + 1)]; /* and in each */
#define UNKNOWN 0
#define APART 1
#define MAPPED 2
byte answer[MEETINGS + 1] = UNKNOWN;

/* What a rank works out about each rank's buffers, its own among them; a buffer is an owner and an inode. */
typedef Knowledge {
  byte card[RANKS];      /* inode shown, NONE: cannot be mapped */
  byte seen_freed[RANKS];
  bool known[RANKS * 3];
  bool by_all[RANKS * 3];
  byte object[3];        /* the other's, as mapped here, by inode */
  bool fresh[RANKS];
}
#define BUFFER(owner) (3 * (owner) + k.card[owner])

inline pass_a_buffer() {
  if
  :: passed[me] = object[me]
  :: passed[me] = NONE
  :: atomic { me == 1 && freed < 1 -> freed++; object[me] = object[me] + 1; passed[me] = object[me] }
  :: atomic {
       me == 1 && freed < 1 ->
       freed++; object[me] = object[me] + 1; inode[me] = 3 - inode[me]; passed[me] = object[me]
     }
  fi
}

inline read_card(owner) {
  k.card[owner] = LOAD(AT(owner, n, INODE));
  d_step {
    k.fresh[owner] = false;
    if
    :: LOAD(AT(owner, n, FREED)) != k.seen_freed[owner] ->
      k.seen_freed[owner] = LOAD(AT(owner, n, FREED));
#ifndef freed_forgotten
      k.known[3 * (owner) + 1] = false;
      k.known[3 * (owner) + 2] = false
#endif
    :: else
    fi
  }
}

inline meet_buffer(owner) {
  if
  :: !k.known[BUFFER(owner)] ->
    k.fresh[owner] = true;
    k.known[BUFFER(owner)] = true;
    k.by_all[BUFFER(owner)] = false
  :: else
  fi
}

/* Through the owner's descriptor; the system may refuse. */
inline map_other() {
  if
  :: atomic { inode[OTHER] == k.card[OTHER] -> k.object[k.card[OTHER]] = object[OTHER] }
  :: good = false
  fi
}

inline conclude(result) {
  atomic {
    assert(answer[n] == UNKNOWN || answer[n] == result);
    answer[n] = result;
    assert(result == APART || k.object[k.card[OTHER]] == passed_in[OTHER * (MEETINGS + 1) + n])
  }
}

proctype participant(byte me) {
  byte n = 1;
  byte freed;
  bool good;
  Knowledge k;
  do
  :: n <= MEETINGS ->
    pass_a_buffer();
    passed_in[me * (MEETINGS + 1) + n] = passed[me];
    STORE(me, AT(me, n, INODE), (passed[me] == NONE -> NONE : inode[me]), RELAXED);
    STORE(me, AT(me, n, FREED), freed, RELAXED);
    STORE(me, AT(me, n, TAG), n, TAG_ORDER);
    LOAD(AT(OTHER, n, TAG)) == n;
    read_card(OTHER);
    d_step { /* its own card, which it need not load */
      k.card[me] = (passed[me] == NONE -> NONE : inode[me]);
      k.fresh[me] = false;
      if
      :: freed != k.seen_freed[me] -> k.seen_freed[me] = freed; k.known[3 * me + 1] = false; k.known[3 * me + 2] = false
      :: else
      fi
    }
    if
    :: k.card[me] == NONE || k.card[OTHER] == NONE -> conclude(APART)
    :: else ->
      d_step { meet_buffer(0); meet_buffer(1) }
      if
      :: k.fresh[0] || k.fresh[1] ->
        good = true;
        if
        :: k.fresh[OTHER] -> map_other()
        :: else
        fi;
        STORE(me, AT(me, n, VERDICT), 2 * n + good, RELEASE);
#ifndef verdicts_not_awaited
        LOAD(AT(OTHER, n, VERDICT)) / 2 == n;
#endif
#ifndef failure_kept
        good = good && LOAD(AT(OTHER, n, VERDICT)) % 2 == 1;
#endif
        d_step {
          if
          :: k.fresh[0] -> k.by_all[BUFFER(0)] = good
          :: else
          fi;
          if
          :: k.fresh[1] -> k.by_all[BUFFER(1)] = good
          :: else
          fi
        }
      :: else
      fi;
      if
      :: k.by_all[BUFFER(0)] && k.by_all[BUFFER(1)] -> conclude(MAPPED)
      :: else -> conclude(APART)
      fi
    fi;
    n++
  :: else -> break
  od
}

init {
  atomic {
    byte i;
    for (i : 0 .. PLACES / RANKS - 1) {
      run drain(0, i);
      run drain(1, PLACES / RANKS + i)
    }
    run participant(0);
    run participant(1)
  }
}
