// Reads ncclCollConfig_t, the configuration of a single call, as programs of NCCL 2.31 and later pass it.
#pragma once

#include "base/types.h"
#include "nccl_shim/nccl.h"
#include "runtime/settings/call_wish.h"

namespace sccl::shim {

// A complete configuration in the newest form; NULL gives the configuration of a plain call. Throws invalid_argument
// naming a field with an invalid value.
ncclCollConfig_t read_coll_config(const ncclCollConfig_t* given);

// What such a configuration asks for in a call of this collective: its fields, then the options of this library's
// vendor id, which go before them. Throws invalid_argument.
runtime::CallOptions options_of(const ncclCollConfig_t& read, Collective collective);

}  // namespace sccl::shim
