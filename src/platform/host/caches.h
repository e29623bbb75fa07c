// The sizes of the processor's caches.
#pragma once

#include <cstddef>

namespace sccl::host {

// One last-level cache, as /sys tells it: the C library adds up all of them on some processors, also those of cores
// that a virtual machine does not have. 32 MiB where nothing is told.
std::size_t last_level_cache_bytes();
// A core's own cache above that one; 0 where nothing is told.
std::size_t second_level_cache_bytes();

// How many bytes of buffers, of the ranks on `cores` cores together, stay in caches until somebody reads them.
std::size_t bytes_that_stay(std::size_t last_level, std::size_t second_level, int cores);
// The same on this machine. `ranks` that are more than its cores share them.
std::size_t bytes_that_stay(int ranks);

}  // namespace sccl::host
