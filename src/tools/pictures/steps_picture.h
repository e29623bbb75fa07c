// A picture of a schedule, one small panel per step.
#pragma once

#include <string>

#include "schedule/schedule.h"

namespace sccl::tools {

// Few ranks and sends are drawn on a circle, with an arrow for every pair that sends; more make a table of senders and
// receivers. Blue copies and vermilion adds, which also differ in dashes or shape. The width and number of an arrow, or
// the size of a mark, show how many chunks are sent.
std::string steps_svg(const schedule::Schedule& schedule);

}  // namespace sccl::tools
