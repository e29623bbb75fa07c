// From an MSCCL algorithm to a schedule.
#pragma once

#include "schedule/msccl_xml.h"
#include "schedule/schedule.h"

namespace sccl::schedule {

// The routes the algorithm's messages take, on a topology of the links it uses (a lane for every channel, with assumed
// figures of an NVLink). Steps are as early as the data allow, because the file has none. Throws invalid_argument
// naming line and element when the algorithm is wrong, or says that a rank keeps two values of one chunk at once,
// which no schedule does.
Schedule schedule_from_msccl(const MscclAlgo& algo);

}  // namespace sccl::schedule
