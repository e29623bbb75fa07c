// The sizes of the processor's caches.
#pragma once

#include <cstddef>

namespace sccl::host {

// One last-level cache, as /sys tells it: the C library adds up all of them on some processors, also those of cores that
// a virtual machine does not have. 32 MiB where nothing is told.
std::size_t last_level_cache_bytes();

}  // namespace sccl::host
