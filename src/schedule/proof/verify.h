// Proves that a schedule computes its collective, whatever its origin.
#pragma once

#include "schedule/schedule.h"

namespace sccl::schedule {

// Executes the schedule symbolically, chunk by chunk: every rank's value is the set of ranks whose contributions it
// holds. Throws invalid_argument that names chunk, rank and step when
//   - a field is out of range, or a weight is negative or not finite,
//   - a send uses a link that the topology lacks, or a step carries more than lanes * rounds over a link or shared set,
//   - a rank sends a chunk that it does not hold, or a reduction counts a contribution twice,
//   - a rank receives a copy and anything else of the same chunk in one step,
//   - a rank does not end with exactly the contributions that the collective defines.
// Cost: O(sends log sends + sends * ranks / 64).
void verify(const Schedule& schedule);

// The first of these rules alone. A schedule that was read from a file must pass before anything is computed from it.
void check_fields(const Schedule& schedule);

}  // namespace sccl::schedule
