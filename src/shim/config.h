// Reading ncclConfig_t and ncclSimInfo_t as programs of every NCCL version since 2.14 pass them.
#pragma once

#include "nccl_shim/nccl.h"
#include "runtime/settings/device_blocks.h"

namespace sccl::shim {

// A complete configuration of the newest form: what the caller's struct does not have, or is too old to mean, is
// undefined. NULL gives all undefined. Throws invalid_argument naming a field that has an invalid value.
ncclConfig_t read_config(const ncclConfig_t* given);

// What a configuration that was read says of blocks.
runtime::BlockWishes block_wishes(const ncclConfig_t& read);

}  // namespace sccl::shim
