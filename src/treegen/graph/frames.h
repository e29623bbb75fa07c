// Long transfers over trees that share links: data goes in frames, one step behind another.
//
// A pipelined schedule repeats its list of sends slice by slice. Where a rank forwards one tree's data early on its
// way and another's late over the same link, the late send of a slice holds up the early send of the next, and a round
// lasts as long as the whole way. In frames, the early send of frame k + 1 stands before the late send of frame k:
// every send waits for something of the step before only, and a round lasts as long as one hop.
#pragma once

#include "schedule/schedule.h"

namespace sccl::treegen {

// Cuts every chunk into `frames` pieces; piece k goes k steps later. The schedule computes the same with frames times
// as many sends in frames - 1 more steps. Throws invalid_argument for less than one frame.
schedule::Schedule in_frames(const schedule::Schedule& schedule, int frames);

}  // namespace sccl::treegen
