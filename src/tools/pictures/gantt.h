// A picture of a simulation: what passes which link when.
#pragma once

#include <string>

#include "schedule/simulate.h"

namespace sccl::tools {

// A row for every lane of every link (of the busiest links, when there are many), a bar for every run of slices of one
// step; the step's place on a colour scale, and stripes where the receiver adds. `simulation` needs its transfers.
std::string gantt_svg(const schedule::Schedule& schedule, const schedule::Simulation& simulation,
                      const std::string& title);

}  // namespace sccl::tools
