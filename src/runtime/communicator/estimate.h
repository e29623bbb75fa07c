// How long a group would take, without running it.
#pragma once

#include <vector>

#include "runtime/communicator/driver.h"

namespace sccl::runtime {

// Microseconds, simulated on the communicators' links (the host's with assumed figures, or those of SCCL_TOPO). The
// operations of one communicator run one after another; different communicators run at the same time.
double estimate_us(const std::vector<Workload>& work);

}  // namespace sccl::runtime
