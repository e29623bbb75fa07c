// What an ncclComm_t points to, and how a handle that is stale or foreign is told from a live one.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/process.h"
#include "nccl_shim/nccl.h"
#include "runtime/communicator/communicator.h"

// Never freed: a stale handle must stay readable, so that using it is an error and not a crash. It is small; what is
// large hangs from `communicator` and goes with it.
struct ncclComm {
  static constexpr std::uint64_t kLive = 0x5cc1c0335cc1c033;
  static constexpr std::uint64_t kGone = 0x5cc1dead5cc1dead;

  std::atomic<std::uint64_t> magic{kLive};  // first, as programs expect a magic word there
  std::atomic<std::uint32_t> calls{0};      // that use `communicator` without the mutex; one thread's at a time
  std::uint64_t operations = 0;             // asked for so far, by one thread at a time; for the log only
  std::atomic<bool> retired{false};         // stale; whoever ends the last call lets go of the communicator
  std::mutex mutex;                         // of this handle only: abort may come while another thread makes a call
  std::shared_ptr<sccl::runtime::Communicator> communicator;
  sccl::ProcessMark made_by = sccl::ProcessMark::of_this_process();
};

namespace sccl::shim {

ncclComm_t make_handle(std::shared_ptr<runtime::Communicator> communicator);

// The communicator behind a handle. Throws invalid_argument for NULL, foreign and stale handles, invalid_usage in a
// child that was forked after the communicator was made.
std::shared_ptr<runtime::Communicator> communicator_of(ncclComm_t handle);

// The same for a call that is made often, by one thread at a time: no lock and no locked operation.
//
//   call                                 take_communicator
//   calls = calls + 1                    retired = true
//   light fence                          heavy fence
//   reads retired; if set, leaves        reads calls; if 0, lets go of the communicator
//   ...
//   calls = calls - 1 (release)
//   light fence
//   reads retired; if set, lets go
//
// Either the call sees the retirement, or the retirement sees the call, and then the call's end sees the retirement.
class Pin {
 public:
  explicit Pin(ncclComm_t handle);
  ~Pin() { leave(); }
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;

  const std::shared_ptr<runtime::Communicator>& communicator() const { return handle_->communicator; }
  ncclComm_t handle() const { return handle_; }
  // Of the pinned call, from 0.
  std::uint64_t operation() const { return operation_; }

 private:
  void leave();

  ncclComm_t handle_;
  std::uint64_t operation_ = 0;
};

// In a forked child makes a handle of its parent's stale, and tells so. All that is behind it stays as it is: the
// shared memory is the parent's, and of the rest the child has copies that end with it.
bool is_left_to_parent(ncclComm_t handle);

// As above, and makes the handle stale. Exactly one of several concurrent callers gets the communicator.
std::shared_ptr<runtime::Communicator> take_communicator(ncclComm_t handle);

}  // namespace sccl::shim
