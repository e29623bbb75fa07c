// A picture of a simulation: which data passes each link at which time.
#pragma once

#include <string>

#include "schedule/simulation/simulate.h"

namespace sccl::tools {

// A row for every lane of every link (of the busiest links, if there are many); a bar for every run of slices of one
// step. The colour shows the step's place on a scale; stripes show that the receiver adds. `simulation` needs its
// transfers.
std::string gantt_svg(const schedule::Schedule& schedule, const schedule::Simulation& simulation,
                      const std::string& title);

}  // namespace sccl::tools
