#include "platform/gpu/user_memory.h"

#include <pthread.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/os/process.h"
#include "platform/gpu/memory.h"
#include "platform/host/exported_memory.h"

namespace sccl::runtime {
namespace {

// Smaller buffers are not exported: each needs a descriptor.
constexpr std::size_t kLeastExportedBytes = 64 * 1024;

struct DeviceBuffer {
  std::shared_ptr<gpu::DeviceMemory> memory;
  ProcessMark made_by;
};

struct UserBuffers {
  std::mutex mutex;
  std::map<void*, DeviceBuffer> on_devices;
  std::unordered_set<void*> plain;
};

// Never destroyed: programs may keep their buffers until the process ends, when the driver must no longer be called.
// Locked during a fork, so that the child finds a consistent table.
UserBuffers& user_buffers() {
  static auto* const instance = [] {
    auto* const made = new UserBuffers;
    const auto unlock = [] { user_buffers().mutex.unlock(); };
    ::pthread_atfork([] { user_buffers().mutex.lock(); }, unlock, unlock);
    return made;
  }();
  return *instance;
}

void free_device_memory(DeviceBuffer dead) {
  // In a forked child no driver may be called: the memory is the parent's.
  if (!dead.made_by.is_this_process()) new DeviceBuffer(std::move(dead));
}

}  // namespace

void* allocate_user_memory(std::size_t bytes, std::size_t alignment) {
  if (bytes > host::kMostAddressableBytes)
    fail(ErrorCode::invalid_argument, "{} bytes are more than a process can address: give the size in bytes", bytes);
  if (const auto device = gpu::current_device()) {
    auto memory = gpu::DeviceMemory::allocate(*device, bytes + 1);
    void* const address = reinterpret_cast<void*>(memory->address());
    UserBuffers& all = user_buffers();
    const std::lock_guard lock(all.mutex);
    all.on_devices[address] = {std::move(memory), ProcessMark::of_this_process()};
    return address;
  }
  if (bytes >= kLeastExportedBytes)
    if (void* const memory = host::allocate_exported(bytes)) return memory;
  void* const memory = std::aligned_alloc(alignment, (bytes / alignment + 1) * alignment);
  if (memory == nullptr) fail(ErrorCode::system_error, "{} bytes of host memory cannot be had: free some", bytes);
  UserBuffers& all = user_buffers();
  const std::lock_guard lock(all.mutex);
  all.plain.insert(memory);
  return memory;
}

std::shared_ptr<gpu::DeviceMemory> find_user_memory(const void* address, std::size_t bytes) {
  UserBuffers& all = user_buffers();
  const std::lock_guard lock(all.mutex);
  auto after = all.on_devices.upper_bound(const_cast<void*>(address));
  if (after == all.on_devices.begin()) return nullptr;
  const std::shared_ptr<gpu::DeviceMemory>& memory = std::prev(after)->second.memory;
  const std::uint64_t begin = reinterpret_cast<std::uint64_t>(address) - memory->address();
  return begin <= memory->bytes() && bytes <= memory->bytes() - begin ? memory : nullptr;
}

void free_user_memory(void* memory) {
  if (memory == nullptr || host::free_exported(memory)) return;
  UserBuffers& all = user_buffers();
  std::unique_lock lock(all.mutex);
  if (all.plain.erase(memory) > 0) {
    lock.unlock();
    return std::free(memory);
  }
  const auto found = all.on_devices.find(memory);
  if (found == all.on_devices.end())
    fail(ErrorCode::invalid_argument,
         "{} is not the beginning of memory that ncclMemAlloc handed out and that is not freed yet: pass what it "
         "returned, once",
         memory);
  DeviceBuffer dead = std::move(found->second);
  all.on_devices.erase(found);
  lock.unlock();
  free_device_memory(std::move(dead));
}

}  // namespace sccl::runtime
