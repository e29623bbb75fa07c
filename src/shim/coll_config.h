// Reading ncclCollConfig_t, what a single call may ask for, as programs of NCCL 2.31 and later pass it.
#pragma once

#include "nccl_shim/nccl.h"

namespace sccl::shim {

// A complete configuration of the newest form; NULL gives the one of a plain call. Throws invalid_argument naming a
// field that has an invalid value, and invalid_usage for what this library cannot do for a single call.
ncclCollConfig_t read_coll_config(const ncclCollConfig_t* given);

}  // namespace sccl::shim
