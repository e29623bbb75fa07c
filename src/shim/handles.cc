#include "shim/handles.h"

#include <utility>
#include <vector>

#include "base/error.h"

namespace sccl::shim {
namespace {

void check_magic(ncclComm_t handle) {
  if (handle == nullptr) fail(ErrorCode::invalid_argument, "the communicator is NULL: pass one that init returned");
  const std::uint64_t magic = handle->magic.load(std::memory_order_acquire);  // pairs with take_communicator
  if (magic == ncclComm::kGone)
    fail(ErrorCode::invalid_argument, "the communicator was destroyed or aborted before: do not use it any more");
  if (magic != ncclComm::kLive)
    fail(ErrorCode::invalid_argument, "the communicator is not one this library made (first word {:#x}): two NCCL libraries "
                                      "may be loaded, see sccl doctor",
         magic);
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
  if (!handle->communicator)
    fail(ErrorCode::invalid_argument, "the communicator was destroyed or aborted before: do not use it any more");
  return handle->communicator;
}

std::shared_ptr<runtime::Communicator> take_communicator(ncclComm_t handle) {
  check_magic(handle);
  const std::lock_guard lock(handle->mutex);
  handle->magic.store(ncclComm::kGone, std::memory_order_release);
  auto communicator = std::exchange(handle->communicator, nullptr);
  if (!communicator)
    fail(ErrorCode::invalid_argument, "the communicator was destroyed or aborted before: do not use it any more");
  return communicator;
}

}  // namespace sccl::shim
