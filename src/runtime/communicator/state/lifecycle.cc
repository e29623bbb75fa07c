#include "runtime/communicator/state/lifecycle.h"

#include <chrono>
#include <thread>

namespace sccl::runtime {

bool Lifecycle::enter(State from, State to) {
  if (!state_.compare_exchange_strong(from, to, std::memory_order_acq_rel)) return false;
  if (to == State::ready) was_ready_.store(true, std::memory_order_release);  // pairs with check_parent()
  return true;
}

int Lifecycle::async_error() const {
  if (const int code = async_error_.load(std::memory_order_acquire); code != 0) {
    while (taking_back_.load(std::memory_order_acquire) > 0)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    // Who learns that an attempt failed may begin the next one: the job of this one has ended by then.
    return is_parent_only() && background_.running() ? kInProgress : code;
  }
  return background_.running() ? kInProgress : 0;
}

void Lifecycle::note_text(const char* text) {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = text;
}

void Lifecycle::begin_failure(ErrorCode code) {
  taking_back_.fetch_add(1, std::memory_order_acq_rel);  // pairs with async_error()
  int none = 0;
  async_error_.compare_exchange_strong(none, static_cast<int>(code), std::memory_order_acq_rel);
}

void Lifecycle::end_failure() {
  taking_back_.fetch_sub(1, std::memory_order_acq_rel);
  enter(State::ready, State::failed);
  enter(State::created, State::failed);
}

void Lifecycle::check_parent() const {
  const State state = now();
  const bool possible = state == State::ready || state == State::revoked || state == State::failed;
  if (!possible || background_.running() || !was_ready_.load(std::memory_order_acquire)) fail_unusable();
}

void Lifecycle::check_suspended() const {
  if (now() == State::suspended && !background_.running()) return;
  check_usable();
  fail(ErrorCode::invalid_usage, "rank {} is not suspended: pair ncclCommSuspend and ncclCommResume", rank_);
}

void Lifecycle::fail_unusable() const {
  const State state = now();
  if (state == State::failed) {
    const std::lock_guard lock(mutex_);
    fail(static_cast<ErrorCode>(async_error_.load(std::memory_order_acquire)),
         "rank {}: this communicator failed earlier ({}): abort it and make a new one", rank_, failure_);
  }
  if (state == State::created || background_.running())
    fail(ErrorCode::invalid_argument,
         "Attempt to use communicator before the previous operation returned ncclSuccess (rank {}): ask "
         "ncclCommGetAsyncError until it is no longer ncclInProgress",
         rank_);
  if (state == State::suspended)
    fail(ErrorCode::invalid_usage, "rank {}: this communicator is suspended: call ncclCommResume first", rank_);
  fail(ErrorCode::invalid_usage, "rank {}: this communicator was {}: make a new one", rank_,
       state == State::aborted   ? "aborted"
       : state == State::revoked ? "revoked"
                                 : "finalized");
}

}  // namespace sccl::runtime
