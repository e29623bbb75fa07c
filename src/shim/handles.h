// What an ncclComm_t points to, and how a stale or foreign handle is distinguished from a live one.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/os/process.h"
#include "nccl_shim/nccl.h"
#include "runtime/communicator/communicator.h"

// Never freed: a stale handle must stay readable, so that its use is an error and not a crash. The handle is small;
// everything large belongs to `communicator` and is freed with it.
struct ncclComm {
  static constexpr std::uint64_t kLive = 0x5cc1c0335cc1c033;
  static constexpr std::uint64_t kGone = 0x5cc1dead5cc1dead;

  std::atomic<std::uint64_t> magic{kLive};  // first, as programs expect a magic word there
  std::atomic<std::uint32_t> calls{0};      // calls that use `communicator` without the mutex; one thread's at a time
  std::uint64_t operations = 0;             // operations called so far, by one thread at a time; for the log only
  std::atomic<bool> retired{false};         // stale; the end of the last call releases the communicator
  std::mutex mutex;                         // of this handle only: an abort may come while another thread makes a call
  bool ending = false;                      // guarded by `mutex`: a thread ends `communicator`
  std::shared_ptr<sccl::runtime::Communicator> communicator;
  sccl::ProcessMark made_by = sccl::ProcessMark::of_this_process();
};

namespace sccl::shim {

ncclComm_t make_handle(std::shared_ptr<runtime::Communicator> communicator);

// The communicator behind a handle. Throws invalid_argument for NULL, foreign and stale handles, invalid_usage in a
// child that was forked after the communicator was made.
std::shared_ptr<runtime::Communicator> communicator_of(ncclComm_t handle);

// As communicator_of(), for calls that are made often, by one thread at a time: no lock and no locked operation.
//
//   call                                 retire
//   calls = calls + 1                    retired = true
//   light fence                          heavy fence
//   reads retired; if set, leaves        reads calls; if 0, releases the communicator
//   ...
//   calls = calls - 1 (release)
//   light fence
//   reads retired; if set, releases it
//
// Either the call sees `retired`, or retire() sees the call in `calls`, and then the end of the call sees
// `retired`.
class Pin {
 public:
  explicit Pin(ncclComm_t handle);
  ~Pin() { leave(); }
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;

  const std::shared_ptr<runtime::Communicator>& communicator() const { return handle_->communicator; }
  ncclComm_t handle() const { return handle_; }
  // The number of the pinned call, from 0.
  std::uint64_t operation() const { return handle_->operations - 1; }

 private:
  void leave();

  ncclComm_t handle_;
};

// In a forked child: makes a parent's handle stale and returns true. Everything behind the handle stays unchanged: the
// shared memory belongs to the parent, and the child's copies of the rest end with the child.
bool is_left_to_parent(ncclComm_t handle);

// As communicator_of(), for the one who ends the communicator: later callers are told that the handle is stale. For all
// other functions the handle stays good until retire().
std::shared_ptr<runtime::Communicator> begin_to_end(ncclComm_t handle);
// Makes the handle stale. Once, after begin_to_end().
void retire(ncclComm_t handle);

// Both at once.
std::shared_ptr<runtime::Communicator> take_communicator(ncclComm_t handle);

}  // namespace sccl::shim
