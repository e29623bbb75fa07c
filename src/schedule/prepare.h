// From a schedule of any origin to a program that may run: verified, lowered, and checked for the slots it will have.
#pragma once

#include "schedule/program.h"

namespace sccl::schedule {

// Verifies the schedule, lowers it with forwarding where `slots` a connection allow that, and checks the program.
// Throws invalid_argument when the schedule is wrong.
Program prepare(const Schedule& schedule, int slots);

}  // namespace sccl::schedule
