#include "platform/gpu/user_memory.h"

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>

#include "base/error.h"
#include "platform/gpu/memory.h"
#include "platform/host/exported_memory.h"

namespace sccl::runtime {
namespace {

// A descriptor for each is too dear for less.
constexpr std::size_t kLeastExportedBytes = 64 * 1024;

struct DeviceBuffers {
  std::mutex mutex;
  std::map<void*, std::shared_ptr<gpu::DeviceMemory>> by_address;
};

// Never destroyed: programs may leave their buffers to the end of the process, when no driver may be called any more.
DeviceBuffers& device_buffers() {
  static auto* const instance = new DeviceBuffers;
  return *instance;
}

}  // namespace

void* allocate_user_memory(std::size_t bytes, std::size_t alignment) {
  if (const auto device = gpu::current_device()) {
    auto memory = gpu::DeviceMemory::allocate(*device, bytes + 1);
    void* const address = reinterpret_cast<void*>(memory->address());
    DeviceBuffers& all = device_buffers();
    const std::lock_guard lock(all.mutex);
    all.by_address[address] = std::move(memory);
    return address;
  }
  if (bytes >= kLeastExportedBytes)
    if (void* const memory = host::allocate_exported(bytes)) return memory;
  const std::size_t pages = bytes / alignment + 1;
  void* const memory = pages > SIZE_MAX / alignment ? nullptr : std::aligned_alloc(alignment, pages * alignment);
  if (memory == nullptr) fail(ErrorCode::system_error, "{} bytes of host memory cannot be had: free some", bytes);
  return memory;
}

std::shared_ptr<gpu::DeviceMemory> find_user_memory(const void* address, std::size_t bytes) {
  DeviceBuffers& all = device_buffers();
  const std::lock_guard lock(all.mutex);
  auto after = all.by_address.upper_bound(const_cast<void*>(address));
  if (after == all.by_address.begin()) return nullptr;
  const std::shared_ptr<gpu::DeviceMemory>& memory = std::prev(after)->second;
  const std::uint64_t begin = reinterpret_cast<std::uint64_t>(address) - memory->address();
  return begin <= memory->bytes() && bytes <= memory->bytes() - begin ? memory : nullptr;
}

void free_user_memory(void* memory) {
  std::shared_ptr<gpu::DeviceMemory> dead;
  {
    DeviceBuffers& all = device_buffers();
    const std::lock_guard lock(all.mutex);
    const auto found = all.by_address.find(memory);
    if (found != all.by_address.end()) {
      dead = std::move(found->second);
      all.by_address.erase(found);
    }
  }
  if (!dead && !host::free_exported(memory)) std::free(memory);
}

}  // namespace sccl::runtime
