// Long transfers over trees that share links: data is cut into frames, one step behind another.
//
// A pipelined schedule repeats its list of sends slice by slice. If a rank forwards the data of one tree early and that
// of another tree late over the same link, the late send of a slice delays the early send of the next, and a round
// takes as long as the whole path. With frames, the early send of frame k + 1 comes before the late send of frame k:
// every send waits only for the step before, and a round takes as long as one hop.
#pragma once

#include "schedule/schedule.h"

namespace sccl::treegen {

// Cuts every chunk into `frames` pieces; piece k is k steps later. The schedule computes the same result with `frames`
// times as many sends in frames - 1 more steps. Throws invalid_argument for less than one frame.
schedule::Schedule in_frames(const schedule::Schedule& schedule, int frames);

}  // namespace sccl::treegen
