// SCCL's own encoding (section 3.4), literally: the reference for tests of the fast encoding.
//
// The paper's variables and constraints C1 to C6 in Z3, without symmetries and without bounds beforehand. Deliberately
// slow; linked only into the command and the tests.
#pragma once

#include "synth/search.h"

namespace sccl::synth {

// Searches schedules of exactly the given steps, for a `problem` from make_problem(). "unknown" when the limits are
// reached or the solver runs out of memory.
Found solve_reference(const Problem& problem, int steps, int rounds, const Limits& limits);

}  // namespace sccl::synth
