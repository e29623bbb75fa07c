// Turns a schedule of any origin into a program that may run: verified, lowered, and checked for its number of slots.
#pragma once

#include "schedule/program.h"

namespace sccl::schedule {

// Verifies the schedule, lowers it (with forwarding if `slots` slots per connection suffice for it), and checks the
// program. Throws invalid_argument when the schedule is wrong.
Program prepare(const Schedule& schedule, int slots);

}  // namespace sccl::schedule
