// Device memory that no other process maps.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>

#include "platform/gpu/memory.h"

namespace sccl::runtime {

// Plain memory: without virtual memory management it needs no file descriptor.
inline std::shared_ptr<gpu::DeviceMemory> allocate_private(gpu::Device device, std::size_t bytes) {
  constexpr std::size_t kLeastBytes = 16;  // drivers refuse to allocate nothing
  device.vmm = false;
  return gpu::DeviceMemory::allocate(device, std::max(bytes, kLeastBytes));
}

}  // namespace sccl::runtime
