#include "shim/handles.h"

#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/os/cancellation.h"
#include "platform/host/fences.h"

namespace sccl::shim {
namespace {

[[noreturn]] void fail_stale() {
  fail(ErrorCode::invalid_argument, "the communicator was destroyed or aborted before: do not use it any more");
}

// Places of all handles: blocks, each twice as long as the one before, so that there are few of them. A handle is
// recognised by its address, as a foreign one may lie where nothing can be read. Also keeps every handle reachable for
// leak checkers. Never destroyed.
class Handles {
 public:
  ncclComm_t make() {
    const std::lock_guard lock(mutex_);
    if (used_ == capacity(filled_)) {
      used_ = 0;
      ++filled_;
    }
    if (used_ == 0)
      // Release: the block's memory comes before its address; pairs with has().
      blocks_[filled_].store(std::allocator<ncclComm>().allocate(capacity(filled_)), std::memory_order_release);
    return new (blocks_[filled_].load(std::memory_order_relaxed) + used_++) ncclComm;
  }
  // A place of the last block that no handle took yet counts as a handle: nobody got its address.
  bool has(ncclComm_t handle) const {
    for (std::size_t i = 0; i < kBlocks; ++i) {
      const ncclComm* const block = blocks_[i].load(std::memory_order_acquire);  // pairs with make()
      if (block == nullptr) return false;
      const std::uintptr_t distance =
          reinterpret_cast<std::uintptr_t>(handle) - reinterpret_cast<std::uintptr_t>(block);
      if (distance < capacity(i) * sizeof(ncclComm)) return distance % sizeof(ncclComm) == 0;
    }
    return false;
  }

 private:
  static constexpr std::size_t kBlocks = 32;
  static std::size_t capacity(std::size_t block) { return std::size_t{32} << block; }

  std::mutex mutex_;
  std::size_t filled_ = 0, used_ = 0;  // blocks before the last one, handles in the last one; guarded by mutex_
  std::array<std::atomic<ncclComm*>, kBlocks> blocks_{};
};
Handles& handles() {
  static auto* const instance = new Handles;
  return *instance;
}

void check_magic(ncclComm_t handle) {
  if (handle == nullptr) fail(ErrorCode::invalid_argument, "the communicator is NULL: pass one that init returned");
  if (!handles().has(handle))
    fail(ErrorCode::invalid_argument,
         "the communicator at {} is not one this library made: two NCCL libraries may be loaded, see sccl doctor",
         static_cast<const void*>(handle));
  const std::uint64_t magic = handle->magic.load(std::memory_order_acquire);  // pairs with retire()
  if (magic != ncclComm::kLive) fail_stale();
}

void check_process(ncclComm_t handle) {
  if (!handle->made_by.is_this_process())
    fail(ErrorCode::invalid_usage,
         "the communicator was made before this process was forked (fork) and belongs to its parent: make one in this "
         "process, with an id of its own");
}

void let_go(ncclComm_t handle) {
  const NoCancellation uncancelled;             // the last one joins threads and closes files
  std::shared_ptr<runtime::Communicator> last;  // destroyed after the lock is released
  const std::lock_guard lock(handle->mutex);
  last = std::move(handle->communicator);
}

}  // namespace

ncclComm_t make_handle(std::shared_ptr<runtime::Communicator> communicator) {
  ncclComm_t handle = handles().make();
  handle->communicator = std::move(communicator);
  return handle;
}

std::shared_ptr<runtime::Communicator> communicator_of(ncclComm_t handle) {
  check_magic(handle);
  check_process(handle);
  const std::lock_guard lock(handle->mutex);
  if (handle->retired.load(std::memory_order_relaxed)) fail_stale();
  return handle->communicator;
}

Pin::Pin(ncclComm_t handle) : handle_(handle) {
  check_magic(handle);
  check_process(handle);
  handle->calls.store(handle->calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  host::light_fence_within_process();
  if (!handle->retired.load(std::memory_order_acquire)) {
    ++handle->operations;
    return;
  }
  leave();
  fail_stale();
}

void Pin::leave() {
  handle_->calls.store(handle_->calls.load(std::memory_order_relaxed) - 1, std::memory_order_release);
  host::light_fence_within_process();
  if (handle_->retired.load(std::memory_order_relaxed)) let_go(handle_);
}

bool is_left_to_parent(ncclComm_t handle) {
  check_magic(handle);
  if (handle->made_by.is_this_process()) return false;
  handle->magic.store(ncclComm::kGone, std::memory_order_relaxed);
  return true;
}

std::shared_ptr<runtime::Communicator> begin_to_end(ncclComm_t handle) {
  check_magic(handle);
  check_process(handle);
  const std::lock_guard lock(handle->mutex);
  if (handle->ending) fail_stale();
  handle->ending = true;
  return handle->communicator;
}

void retire(ncclComm_t handle) {
  {
    const std::lock_guard lock(handle->mutex);
    handle->magic.store(ncclComm::kGone, std::memory_order_release);
    handle->retired.store(true, std::memory_order_release);  // pairs with Pin
  }
  host::heavy_fence();
  // Acquire: the effects of the last call on the communicator come before the communicator's end.
  if (handle->calls.load(std::memory_order_acquire) == 0) let_go(handle);
}

std::shared_ptr<runtime::Communicator> take_communicator(ncclComm_t handle) {
  std::shared_ptr<runtime::Communicator> communicator = begin_to_end(handle);
  retire(handle);
  return communicator;
}

}  // namespace sccl::shim
