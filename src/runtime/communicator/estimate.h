// How long a group would take, without running it.
#pragma once

#include <vector>

#include "runtime/communicator/driver.h"

namespace sccl::runtime {

// Microseconds, by the simulator on the communicators' links (the host's with assumed figures, or those of SCCL_TOPO):
// the work of one communicator one after another, that of different ones at the same time.
double estimate_us(const std::vector<Workload>& work);

}  // namespace sccl::runtime
