#include "runtime/transport/net/link/registered_buffers.h"

#include <algorithm>

#include "platform/host/exported_memory.h"

namespace sccl::runtime {

void RegisteredBuffers::add(const void* begin, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  added_.push_back({static_cast<const std::byte*>(begin), bytes, 0, next_age_++});
}

void RegisteredBuffers::remove(const void* begin, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(added_.begin(), added_.end(),
                                  [&](const Region& one) { return one.begin == begin && one.bytes == bytes; });
  if (found != added_.end()) added_.erase(found);
}

std::optional<RegisteredBuffers::Region> RegisteredBuffers::find(const std::byte* data, std::size_t bytes) const {
  {
    const std::lock_guard lock(mutex_);
    for (const Region& one : added_)
      if (data >= one.begin && bytes <= one.bytes && data <= one.begin + (one.bytes - bytes)) return one;
  }
  // Counts first: pages that change hands meanwhile make an older region.
  const std::uint64_t changes = host::exported_changes();
  const auto exported = host::find_exported(data, bytes);
  if (!exported) return std::nullopt;
  return Region{reinterpret_cast<const std::byte*>(exported->begin), exported->bytes, exported->inode, changes};
}

bool RegisteredBuffers::is_current(const Region& region) const {
  if (region.inode != 0) return region.age == host::exported_changes();
  const std::lock_guard lock(mutex_);
  return std::find(added_.begin(), added_.end(), region) != added_.end();
}

}  // namespace sccl::runtime
