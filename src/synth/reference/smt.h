// SCCL's own encoding (section 3.4), word for word, as the reference that the fast one is held against.
//
// The paper's variables and constraints C1 to C6 in Z3: no symmetries, no bounds beforehand. Slow by intention, and
// linked into the command and the tests only.
#pragma once

#include "synth/search.h"

namespace sccl::synth {

// Schedules of exactly the steps given; `problem` as make_problem returns it. "unknown" when the limits are reached or
// the solver runs out of memory.
Found solve_reference(const Problem& problem, int steps, int rounds, const Limits& limits);

}  // namespace sccl::synth
