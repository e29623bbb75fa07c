// The sizes of the processor's caches.
#pragma once

#include <cstddef>

namespace sccl::host {

// One last-level cache, according to /sys: on some processors the C library adds up all of them, even those of cores
// that a virtual machine does not have. 32 MiB if unknown.
std::size_t last_level_cache_bytes();
// A core's own second-level cache; 0 if unknown.
std::size_t second_level_cache_bytes();

// How many bytes of buffers of ranks on `cores` cores stay in caches until they are read.
std::size_t bytes_that_stay(std::size_t last_level, std::size_t second_level, int cores);
// The same on this machine. If there are more ranks than cores, the ranks share the cores.
std::size_t bytes_that_stay(int ranks);

}  // namespace sccl::host
