// What an ncclComm_t points to, and how a handle that is stale or foreign is told from a live one.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "nccl_shim/nccl.h"
#include "runtime/communicator.h"

// Never freed: a stale handle must stay readable, so that using it is an error and not a crash. It is small; what is
// large hangs from `communicator` and goes with it.
struct ncclComm {
  static constexpr std::uint64_t kLive = 0x5cc1c0335cc1c033;
  static constexpr std::uint64_t kGone = 0x5cc1dead5cc1dead;

  // Of `pins`: the handle is stale, and whoever unpins it last lets go of the communicator.
  static constexpr std::uint32_t kRetired = 1u << 31;

  std::atomic<std::uint64_t> magic{kLive};  // first, as programs expect a magic word there
  std::atomic<std::uint32_t> pins{0};       // calls that use `communicator` without the mutex
  std::mutex mutex;                         // of this handle only: abort may come while another thread makes a call
  std::shared_ptr<sccl::runtime::Communicator> communicator;
};

namespace sccl::shim {

ncclComm_t make_handle(std::shared_ptr<runtime::Communicator> communicator);

// The communicator behind a handle. Throws invalid_argument for NULL, foreign and stale handles.
std::shared_ptr<runtime::Communicator> communicator_of(ncclComm_t handle);

// The same for a call that is made often: keeps the communicator by one count instead of a lock and two.
class Pin {
 public:
  explicit Pin(ncclComm_t handle);
  ~Pin();
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;

  const std::shared_ptr<runtime::Communicator>& communicator() const { return handle_->communicator; }

 private:
  ncclComm_t handle_;
};

// As above, and makes the handle stale. Exactly one of several concurrent callers gets the communicator.
std::shared_ptr<runtime::Communicator> take_communicator(ncclComm_t handle);

}  // namespace sccl::shim
