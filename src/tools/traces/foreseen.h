// A simulated timeline as a trace, in the form of measured traces: a process for each rank, its call, and a track for
// each lane of a link on which the rank sends.
#pragma once

#include <string>
#include <string_view>

#include "schedule/simulation/simulate.h"

namespace sccl::tools {

// `simulation` must have its transfers (Detail::transfers); `title` names the call. Times begin at 0.
std::string foreseen_trace(const schedule::Schedule& schedule, const schedule::Simulation& simulation,
                           std::string_view title);

}  // namespace sccl::tools
