// Converts an MSCCL algorithm to a schedule.
#pragma once

#include "schedule/msccl/msccl_xml.h"
#include "schedule/schedule.h"

namespace sccl::schedule {

// The routes of the algorithm's messages, on a topology of the links in use (one lane per channel, with assumed figures
// of an NVLink). The file has no steps, so steps are as early as the data allow. Throws invalid_argument that names
// line and element when the algorithm is wrong, or when a rank keeps two values of one chunk at once, which no schedule
// can express.
Schedule schedule_from_msccl(const MscclAlgo& algo);

}  // namespace sccl::schedule
