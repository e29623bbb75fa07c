#include "platform/gpu/user_memory.h"

#include <pthread.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/os/process.h"
#include "platform/gpu/memory.h"
#include "platform/host/exported_memory.h"

namespace sccl::runtime {
namespace {

// Smaller buffers are not exported: each needs a descriptor.
constexpr std::size_t kLeastExportedBytes = 64 * 1024;

struct UserBuffer {
  void* address = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<gpu::DeviceMemory> on_device;  // null: host memory
  ProcessMark made_by = ProcessMark::of_this_process();

  UserBuffer(void* address_, std::size_t bytes_) : address(address_), bytes(bytes_) {}
  ~UserBuffer() {
    if (on_device == nullptr) {
      if (!host::free_exported(address)) std::free(address);
    } else if (!made_by.is_this_process()) {
      // In a forked child no driver may be called: the memory is the parent's.
      new std::shared_ptr<gpu::DeviceMemory>(std::move(on_device));
    }
  }
  UserBuffer(const UserBuffer&) = delete;
  UserBuffer& operator=(const UserBuffer&) = delete;

  bool holds(const void* at, std::size_t size) const {
    const std::uint64_t begin = reinterpret_cast<std::uint64_t>(at) - reinterpret_cast<std::uint64_t>(address);
    return begin <= bytes && size <= bytes - begin;
  }
};

struct UserBuffers {
  std::mutex mutex;
  std::map<void*, std::shared_ptr<UserBuffer>> by_address;
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

void* add(std::shared_ptr<UserBuffer> made) {
  void* const address = made->address;
  UserBuffers& all = user_buffers();
  const std::lock_guard lock(all.mutex);
  all.by_address[address] = std::move(made);
  return address;
}

// Null: none contains [address, address + bytes).
std::shared_ptr<UserBuffer> find(const void* address, std::size_t bytes) {
  UserBuffers& all = user_buffers();
  const std::lock_guard lock(all.mutex);
  auto after = all.by_address.upper_bound(const_cast<void*>(address));
  if (after == all.by_address.begin()) return nullptr;
  const std::shared_ptr<UserBuffer>& found = std::prev(after)->second;
  return found->holds(address, bytes) ? found : nullptr;
}

}  // namespace

void* allocate_user_memory(std::size_t bytes, std::size_t alignment) {
  if (bytes > host::kMostAddressableBytes)
    fail(ErrorCode::invalid_argument, "{} bytes are more than a process can address: give the size in bytes", bytes);
  if (const auto device = gpu::current_device()) {
    auto memory = gpu::DeviceMemory::allocate(*device, bytes + 1);
    auto made = std::make_shared<UserBuffer>(reinterpret_cast<void*>(memory->address()), memory->bytes());
    made->on_device = std::move(memory);
    return add(std::move(made));
  }
  if (bytes >= kLeastExportedBytes)
    if (void* const memory = host::allocate_exported(bytes)) return add(std::make_shared<UserBuffer>(memory, bytes));
  void* const memory = std::aligned_alloc(alignment, (bytes / alignment + 1) * alignment);
  if (memory == nullptr) fail(ErrorCode::system_error, "{} bytes of host memory cannot be had: free some", bytes);
  return add(std::make_shared<UserBuffer>(memory, bytes));
}

std::shared_ptr<gpu::DeviceMemory> find_user_memory(const void* address, std::size_t bytes) {
  const auto found = find(address, bytes);
  return found == nullptr ? nullptr : found->on_device;
}

std::shared_ptr<void> hold_user_memory(const void* address, std::size_t bytes) { return find(address, bytes); }

void free_user_memory(void* memory) {
  if (memory == nullptr) return;
  std::shared_ptr<UserBuffer> freed;  // destroyed without the lock
  UserBuffers& all = user_buffers();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_address.find(memory);
  if (found == all.by_address.end())
    fail(ErrorCode::invalid_argument,
         "{} is not the beginning of memory that ncclMemAlloc handed out and that is not freed yet: pass what it "
         "returned, once",
         memory);
  freed = std::move(found->second);
  all.by_address.erase(found);
}

}  // namespace sccl::runtime
