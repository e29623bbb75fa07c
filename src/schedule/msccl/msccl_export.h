// Converts a schedule to an MSCCL algorithm.
#pragma once

#include "schedule/msccl/msccl_xml.h"
#include "schedule/schedule.h"

namespace sccl::schedule {

// Every connection becomes a sending block at one end and a receiving block at the other, one pair for each lane of the
// link while blocks last, and further pairs where one would have too many steps. Waits of a step for other blocks
// become its dependency and preceding nops. Chunks that are adjacent at both ends travel as one message. The schedule
// must have passed verify(). Throws invalid_argument when its chunks have different sizes, or when it needs more
// blocks, channels or steps than MSCCL has.
MscclAlgo msccl_from_schedule(const Schedule& schedule);

}  // namespace sccl::schedule
