// Reads ncclConfig_t and ncclSimInfo_t as programs of every NCCL version since 2.14 pass them.
#pragma once

#include <cstdint>

#include "nccl_shim/nccl.h"
#include "runtime/settings/device_blocks.h"

namespace sccl::shim {

// A complete configuration in the newest form. Fields that the caller's struct lacks, or that its version does not
// know, are undefined. NULL gives all undefined. Throws invalid_argument naming a field with an invalid value.
ncclConfig_t read_config(const ncclConfig_t* given);

// Whether calls may return before they are done: what NCCL_COMM_BLOCKING says, else the configuration.
bool is_blocking(const ncclConfig_t& read);

// timeoutMs of a scclConfig_t; negative where the configuration is none or does not say. Throws invalid_argument.
std::int64_t timeout_ms(const ncclConfig_t* given);

// The wishes about blocks in a configuration.
runtime::BlockWishes block_wishes(const ncclConfig_t& read);

}  // namespace sccl::shim
