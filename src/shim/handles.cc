#include "shim/handles.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "platform/host/fences.h"

namespace sccl::shim {
namespace {

[[noreturn]] void fail_stale() {
  fail(ErrorCode::invalid_argument, "the communicator was destroyed or aborted before: do not use it any more");
}

void check_magic(ncclComm_t handle) {
  if (handle == nullptr) fail(ErrorCode::invalid_argument, "the communicator is NULL: pass one that init returned");
  const std::uint64_t magic = handle->magic.load(std::memory_order_acquire);  // pairs with retire()
  if (magic == ncclComm::kGone) fail_stale();
  if (magic != ncclComm::kLive)
    fail(ErrorCode::invalid_argument,
         "the communicator is not one this library made (first word {:#x}): two NCCL libraries "
         "may be loaded, see sccl doctor",
         magic);
}

void check_process(ncclComm_t handle) {
  if (!handle->made_by.is_this_process())
    fail(ErrorCode::invalid_usage,
         "the communicator was made before this process was forked (fork) and belongs to its parent: make one in this "
         "process, with an id of its own");
}

void let_go(ncclComm_t handle) {
  std::shared_ptr<runtime::Communicator> last;  // destroyed after the lock is released
  const std::lock_guard lock(handle->mutex);
  last = std::move(handle->communicator);
}

// Keeps every handle reachable for leak checkers. Never destroyed.
struct Handles {
  std::mutex mutex;
  std::vector<ncclComm_t> all;
};
Handles& handles() {
  static auto* const instance = new Handles;
  return *instance;
}

}  // namespace

ncclComm_t make_handle(std::shared_ptr<runtime::Communicator> communicator) {
  auto handle = std::make_unique<ncclComm>();
  handle->communicator = std::move(communicator);
  const std::lock_guard lock(handles().mutex);
  handles().all.push_back(handle.get());
  return handle.release();
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
