// The memory that ncclMemAlloc returns: on the current device, or on the host if there is none.
#pragma once

#include <cstddef>
#include <memory>

#include "platform/gpu/memory.h"

namespace sccl::runtime {

// Aligned as windows require. Throws system_error or device_error when there is no memory left.
void* allocate_user_memory(std::size_t bytes, std::size_t alignment);

// The allocation that contains [address, address + bytes), if it is device memory; else null.
std::shared_ptr<gpu::DeviceMemory> find_user_memory(const void* address, std::size_t bytes);

// Keeps the memory that contains [address, address + bytes) even if the program frees it meanwhile: what it frees then
// goes with the last of these. Null: the memory is not of ncclMemAlloc.
std::shared_ptr<void> hold_user_memory(const void* address, std::size_t bytes);

// Null: does nothing. All work on device memory must have ended. Throws invalid_argument for an address that was not
// allocated here, or was freed before. In a forked child the parent's memory is left alone.
void free_user_memory(void* memory);

}  // namespace sccl::runtime
