// A picture of a schedule, one small panel a step.
#pragma once

#include <string>

#include "schedule/schedule.h"

namespace sccl::tools {

// Few ranks and sends stand on a circle with an arrow for every pair that sends; more make a table of senders and
// receivers. Blue copies, vermilion adds, also told apart by dashes or shape; an arrow's width and number or a mark's
// size tell how many chunks.
std::string steps_svg(const schedule::Schedule& schedule);

}  // namespace sccl::tools
