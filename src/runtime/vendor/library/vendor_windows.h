// Windows that are registered with the vendor's library, too. A program's own kernels read the vendor's handle, so the
// program gets that one, and our functions find our window by it.
#pragma once

#include <map>
#include <mutex>
#include <set>

#include "nccl_shim/nccl.h"
#include "runtime/call/window.h"

namespace sccl::runtime {

// For any thread.
class VendorWindows {
 public:
  // `ours` may be null: only the vendor's library has a window.
  void add(ncclWindow_t theirs, const Window* ours) {
    const std::lock_guard lock(mutex_);
    windows_[theirs] = ours;
  }
  void remove(ncclWindow_t theirs) {
    const std::lock_guard lock(mutex_);
    windows_.erase(theirs);
  }
  bool has(ncclWindow_t handle) const {
    const std::lock_guard lock(mutex_);
    return windows_.contains(handle);
  }
  // The handle itself where the vendor's library does not know it.
  const Window* ours(ncclWindow_t handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = windows_.find(handle);
    return found == windows_.end() ? reinterpret_cast<const Window*>(handle) : found->second;
  }

  // Windows of ours that the vendor's library does not know; null is none.
  void add_foreign(const Window* ours) {
    const std::lock_guard lock(mutex_);
    if (ours != nullptr) foreign_.insert(ours);
  }
  void remove_foreign(const Window* ours) {
    const std::lock_guard lock(mutex_);
    foreign_.erase(ours);
  }
  bool has_foreign() const {
    const std::lock_guard lock(mutex_);
    return !foreign_.empty();
  }

 private:
  mutable std::mutex mutex_;
  std::map<ncclWindow_t, const Window*> windows_;
  std::set<const Window*> foreign_;
};

}  // namespace sccl::runtime
