// What ncclMemAlloc hands out: memory of the device that is current, or the host's where none is.
#pragma once

#include <cstddef>
#include <memory>

#include "platform/gpu/memory.h"

namespace sccl::runtime {

// Aligned as windows require. Throws system_error, or device_error, when there is none.
void* allocate_user_memory(std::size_t bytes, std::size_t alignment);

// What was handed out around [address, address + bytes), if it is memory of a device; else null.
std::shared_ptr<gpu::DeviceMemory> find_user_memory(const void* address, std::size_t bytes);

// Null is nothing. Of a device: the work on it must have ended. Throws invalid_argument for what was not handed out, or
// was freed before. In a forked child nothing of its parent's changes.
void free_user_memory(void* memory);

}  // namespace sccl::runtime
