// What ncclMemAlloc hands out: memory of the device that is current, or the host's where none is.
#pragma once

#include <cstddef>

namespace sccl::runtime {

// Aligned as windows require. Throws system_error, or device_error, when there is none.
void* allocate_user_memory(std::size_t bytes, std::size_t alignment);

// Null is nothing. Of a device: the work on it must have ended.
void free_user_memory(void* memory);

}  // namespace sccl::runtime
