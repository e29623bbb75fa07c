/* Shared memory whose stores become visible late and out of order; included by the models.
 *
 * A store enters its rank's buffer. At any later moment it may leave the buffer and reach memory:
 *   - a release store leaves when every earlier store of its rank has left;
 *   - a relaxed store leaves when every earlier store of its rank to the same place has left, so that it overtakes
 *     earlier stores to other places, release stores among them.
 * A fence waits until the rank's buffer is empty. A heavy fence (membarrier) waits for that at every rank.
 *
 * This is weaker than x86 (whose buffers are queues), and as weak as C++ allows for stores. Loads are made in the order
 * of the program: in the code every load that decides something is an acquire load. No rank loads a place it has
 * stored itself, so that loads need not look into the buffer.
 *
 * A model defines RANKS, PLACES and DEPTH (stores that a buffer holds), and starts run_buffers() in its init.
 */
#define RELAXED 0
#define RELEASE 1

byte memory[PLACES];
chan buffer[RANKS] = [DEPTH] of { byte, byte, bit }; /* place, value, order */

#define STORE(rank, place, value, order) buffer[rank] ! place, value, order
#define LOAD(place) memory[place]
#define FENCE(rank) empty(buffer[rank])

/* A read-modify-write acts on memory itself; with release order, after the rank's earlier stores. */
#define ADD_RELEASE(rank, place) atomic { empty(buffer[rank]); memory[place] = memory[place] + 1 }

inline heavy_fence(fenced) {
  fenced = 0;
  do
  :: fenced < RANKS -> empty(buffer[fenced]); fenced++
  :: else -> break
  od;
  fenced = 0
}

/* Of one rank's stores to one place. */
proctype drain(byte rank; byte place) {
  byte value;
  bit order;
end:
  do
  :: atomic {
       buffer[rank] ?? <eval(place), value, order>;                             /* the oldest of the place */
       order == RELAXED || buffer[rank] ? [eval(place), eval(value), RELEASE]; /* the oldest of the rank */
       buffer[rank] ?? eval(place), value, order;
       memory[place] = value;
       value = 0;
       order = 0
     }
  od
}
