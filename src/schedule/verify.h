// The proof that a schedule computes its collective, whoever made it.
#pragma once

#include "schedule/schedule.h"

namespace sccl::schedule {

// Executes the schedule symbolically, chunk by chunk: every rank's value is the set of ranks whose contributions it
// holds. Throws invalid_argument naming chunk, rank and step when
//   - a field is out of range, or a weight is negative or not finite,
//   - a send uses a link the topology lacks, or a step carries more than lanes * rounds over a link or shared set,
//   - a rank sends what it does not hold, a reduction counts a contribution twice,
//   - a rank receives a copy and anything else of the same chunk in one step,
//   - a rank does not end with exactly the contributions the collective defines.
// Cost: O(sends log sends + sends * ranks / 64).
void verify(const Schedule& schedule);

}  // namespace sccl::schedule
