// Reads ncclCollConfig_t, the configuration of a single call, as programs of NCCL 2.31 and later pass it.
#pragma once

#include "nccl_shim/nccl.h"
#include "runtime/settings/call_wish.h"

namespace sccl::shim {

// A complete configuration in the newest form; NULL gives the configuration of a plain call. Throws invalid_argument
// naming a field with an invalid value, and invalid_usage for a request that this library cannot serve for a single
// call.
ncclCollConfig_t read_coll_config(const ncclCollConfig_t* given);

// What a configuration that was read asks for: algSelection, then the options of this library's vendor id.
runtime::CallOptions options_of(const ncclCollConfig_t& config, Collective collective);

}  // namespace sccl::shim
