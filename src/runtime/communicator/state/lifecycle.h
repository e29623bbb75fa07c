// The state of a communicator: which calls it allows now, and why it refuses others.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "base/error.h"
#include "base/types.h"
#include "runtime/communicator/state/job.h"

namespace sccl::runtime {

// What ncclCommGetAsyncError returns while background work runs.
inline constexpr int kInProgress = 7;

// For any thread.
class Lifecycle {
 public:
  enum class State : int { created, ready, suspended, revoked, finalized, aborted, failed };

  explicit Lifecycle(Rank rank) : rank_(rank) {}

  State now() const { return state_.load(std::memory_order_acquire); }
  bool failed() const { return async_error_.load(std::memory_order_acquire) != 0; }
  // Work of a non-blocking communicator: while it runs, no other call is allowed.
  BackgroundWork& background() { return background_; }

  // The code of the first error that this communicator met, else kInProgress while background work runs, else 0.
  // Takes no lock, but waits while the buffers of a failed call are taken back: a caller that sees the code may free
  // them. If a stream has ended because of the failure, the code is visible already.
  int async_error() const;

  // Throws unless the communicator is ready. The error tells the state and its reason.
  void check_usable() const {
    if (now() != State::ready || background_.running()) [[unlikely]]
      fail_unusable();
  }
  // The same for making communicators from this one. A revoked or failed communicator still allows that.
  void check_parent() const;
  // The same for resume().
  void check_suspended() const;
  [[noreturn, gnu::cold]] void fail_unusable() const;

  // False, without effect, if the state is not `from`.
  bool enter(State from, State to);
  void abort() { state_.store(State::aborted, std::memory_order_release); }
  void revoke() { state_.store(State::revoked, std::memory_order_release); }
  // The end of a revocation: calls that it ended have not failed.
  void end_revocation() {
    async_error_.store(0, std::memory_order_release);
    revocation_over_.store(true, std::memory_order_release);  // pairs with is_parent_only()
  }
  // After a revocation, when no call runs any more: what fails now is the making of another communicator from this one.
  bool is_parent_only() const { return revocation_over_.load(std::memory_order_acquire); }
  // Such a communicator forgets an attempt that failed when the next one begins.
  void forget_failed_attempt() {
    if (is_parent_only()) async_error_.store(0, std::memory_order_release);
  }

  // A failure is recorded in three steps: its text; its code; and the end, after the caller has taken the buffers back.
  void note_text(const char* text);
  void begin_failure(ErrorCode code);
  void end_failure();

 private:
  const Rank rank_;
  std::atomic<State> state_{State::created};
  std::atomic<bool> was_ready_{false};
  std::atomic<int> async_error_{0};
  std::atomic<bool> revocation_over_{false};
  std::atomic<int> taking_back_{0};  // threads that record a failure and take buffers back
  BackgroundWork background_;
  mutable std::mutex mutex_;
  std::string failure_;  // guarded by mutex_
};

}  // namespace sccl::runtime
