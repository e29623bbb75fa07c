#include "shim/handles.h"

#include <utility>
#include <vector>

#include "base/error.h"

namespace sccl::shim {
namespace {

[[noreturn]] void fail_stale() {
  fail(ErrorCode::invalid_argument, "the communicator was destroyed or aborted before: do not use it any more");
}

void check_magic(ncclComm_t handle) {
  if (handle == nullptr) fail(ErrorCode::invalid_argument, "the communicator is NULL: pass one that init returned");
  const std::uint64_t magic = handle->magic.load(std::memory_order_acquire);  // pairs with take_communicator
  if (magic == ncclComm::kGone) fail_stale();
  if (magic != ncclComm::kLive)
    fail(ErrorCode::invalid_argument, "the communicator is not one this library made (first word {:#x}): two NCCL libraries "
                                      "may be loaded, see sccl doctor",
         magic);
}

void let_go(ncclComm_t handle) {
  std::shared_ptr<runtime::Communicator> last;  // goes after the lock does
  const std::lock_guard lock(handle->mutex);
  last = std::move(handle->communicator);
}

void unpin(ncclComm_t handle) {
  // Acquire: pairs with the retirement and with the other calls' ends, which must come before the communicator's.
  if (handle->pins.fetch_sub(1, std::memory_order_acq_rel) == (ncclComm::kRetired | 1)) let_go(handle);
}

// Keeps every handle reachable, so that leak checkers know them. Never destroyed.
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
  const std::lock_guard lock(handle->mutex);
  if ((handle->pins.load(std::memory_order_relaxed) & ncclComm::kRetired) != 0) fail_stale();
  return handle->communicator;
}

Pin::Pin(ncclComm_t handle) : handle_(handle) {
  check_magic(handle);
  // Before the retirement, and then it waits for the unpinning; or after it, and sees it. Pairs with take_communicator.
  if ((handle->pins.fetch_add(1, std::memory_order_acquire) & ncclComm::kRetired) == 0) return;
  unpin(handle);
  fail_stale();
}

Pin::~Pin() { unpin(handle_); }

std::shared_ptr<runtime::Communicator> take_communicator(ncclComm_t handle) {
  check_magic(handle);
  std::shared_ptr<runtime::Communicator> communicator;
  std::uint32_t pins = 0;
  {
    const std::lock_guard lock(handle->mutex);
    communicator = handle->communicator;
    handle->magic.store(ncclComm::kGone, std::memory_order_release);
    pins = handle->pins.fetch_or(ncclComm::kRetired, std::memory_order_acq_rel);  // pairs with Pin
  }
  if ((pins & ncclComm::kRetired) != 0) fail_stale();
  if (pins == 0) let_go(handle);
  return communicator;
}

}  // namespace sccl::shim
