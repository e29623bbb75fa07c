// From a schedule to an MSCCL algorithm.
#pragma once

#include "schedule/msccl_xml.h"
#include "schedule/schedule.h"

namespace sccl::schedule {

// Every connection becomes a sending block at one end and a receiving one at the other, one for each lane of the link
// while blocks last; what a step needs of other blocks stands in its dependency and in nops before it. Chunks that lie
// side by side at both ends travel as one message. The schedule must have passed verify(). Throws invalid_argument
// when its chunks have different sizes or it needs more blocks or steps than MSCCL has.
MscclAlgo msccl_from_schedule(const Schedule& schedule);

}  // namespace sccl::schedule
