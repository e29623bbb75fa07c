// Lowering: turns routes of chunks into lanes of operations, one rank at a time. A rank's program follows from the
// rank's own part of the schedule alone.
//
// Order of messages. The messages of every connection are in the order of (step, chunk), whatever the two ends forward
// or store: no end needs to know how the other end runs.
//
// Why no program deadlocks (Forwarding::off and Forwarding::within). Every operation gets a position
// (slice, step, phase, chunk, part), and everything that an operation waits for has an earlier position. So the
// unfinished operation with the first position can always run.
//   1. Lanes. A lane with a receiving operation is mixed, any other lane is pure. Positions within a slice:
//        a receiving operation, which may forward    (step, 1, chunk, 1)   step: of the arrival
//        a send in a pure lane                       (step, 1, chunk, 0)
//        a send in a mixed lane                      (step, 0, chunk, 0)
//      Lanes run their operations in this order, because operations are created in this order.
//   2. Waits for messages. A message of (s, c) comes from a send at (s, 0, c) or (s, 1, c, 0), or from an operation
//      that forwards and received the chunk in step s - 1. Each is before (s, 1, c, 1).
//   3. Waits for room. With `slots` slots, the n-th message of a connection waits until the receiver has taken message
//      n - slots, which is a receiving operation at (s', 1, c', 1). Messages of a connection are ordered, so
//      (s', c') < (s, c): enough for a send in a pure lane. A connection in a mixed lane has at most `slots` messages
//      in every step, so s' < s: enough for a send in a mixed lane. An operation that forwards in step s stands at
//      (s - 1, 1, c, 1); it forwards only if s' < s - 1, or s' = s - 1 and c' < c. If there is no such message in this
//      slice, the wait is for an earlier slice.
//   4. Waits of a root's lanes for one another (Schedule::root_lead) are for operations of earlier steps or slices.
//   5. Waits within a rank. An operation waits for the operation that stored the value that it reads, in an earlier
//      step; a receiving operation waits for those that read the value that it replaces, in the same step (sends) or
//      earlier; the first write to scratch waits for reads of the previous slice.
// With Forwarding::unbounded, rule 3 need not hold: check_program() decides.
#pragma once

#include <limits>
#include <optional>
#include <span>

#include "schedule/lowering/rank_part.h"
#include "schedule/program.h"

namespace sccl::schedule {

// Forwarding: a value that is sent in the step after its arrival is sent by the operation that receives it, and is
// stored only if needed again.
struct Forwarding {
  int slots = 0;  // of every connection: with so many the program has no deadlock; 0: nothing is forwarded

  static constexpr Forwarding within(int slots) { return {slots}; }
  static const Forwarding off;
  static const Forwarding unbounded;
};
inline constexpr Forwarding Forwarding::off{0};
inline constexpr Forwarding Forwarding::unbounded{std::numeric_limits<int>::max()};

// Store-and-forward through the slots of connections; serves every verified schedule. Operands of a reduction are in
// ascending order of their source ranks, on every rank, so ranks that compute the same sum get the same bits.
Program lower(const Schedule& schedule, Forwarding forwarding);

// Takes a program operation by operation.
class ProgramSink {
 public:
  virtual ~ProgramSink() = default;
  virtual void begin(const std::vector<Connection>& connections, int scratch_slots, std::size_t ops) = 0;
  // The operations that follow belong to this lane.
  virtual void add_lane(std::size_t ops) = 0;
  // The sink may change `op`, which is used again.
  virtual void add(Op& op) = 0;
};

// One rank's program. Its operations and places number chunks by their positions in `part.chunks`. Takes time and
// memory linear in the part and in the number of ranks (one word each), apart from sorting few dependencies.
void lower(RankPart part, Forwarding forwarding, ProgramSink& sink);
RankProgram lower(const RankPart& part, Forwarding forwarding);

// Replaces positions in `chunks` by the chunks' own numbers.
void number_chunks(RankProgram& program, std::span<const ChunkId> chunks);

// For ranks that can access one another's buffers. A chunk whose in-tree and out-tree are stars becomes one operation,
// which reads all contributions and writes all results in place, every byte once. Nothing when some chunk's route has
// another form.
std::optional<Program> lower_direct(const Schedule& schedule);

}  // namespace sccl::schedule
