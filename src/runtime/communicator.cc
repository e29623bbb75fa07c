#include "runtime/communicator.h"

#include <atomic>

#include "base/env.h"
#include "base/log.h"
#include "runtime/executor.h"

namespace sccl::runtime {
namespace {

constexpr int kFirstUserOp = 5;
constexpr std::int64_t kDefaultInitTimeoutMs = 120000;

// Handles are unique in the process, so that one communicator's is unknown to every other.
std::atomic<int> next_redop{kFirstUserOp};

}  // namespace

Communicator::Communicator(CommunicatorOptions options) : options_(std::move(options)) {
  if (options_.ranks < 1 || options_.rank < 0 || options_.rank >= options_.ranks)
    fail(ErrorCode::invalid_argument, "rank {} of {} ranks: the rank must lie in 0..ranks-1 and there must be a rank",
         options_.rank, options_.ranks);
}

Communicator::~Communicator() = default;

void Communicator::connect() {
  const auto timeout_ms = env::number("SCCL_INIT_TIMEOUT_MS", kDefaultInitTimeoutMs, 1, std::int64_t{1} << 40);
  env::report_once();
  try {
    Membership membership = meet(options_.id, options_.rank, options_.ranks,
                                 Deadline::in(std::chrono::milliseconds(timeout_ms)), abort_);
    log::info(log::Subsystem::init, "rank {} of {} ready: host platform, {} KiB slots, up to {} bytes of memory, {}",
              options_.rank, options_.ranks, membership.layout.slot_bytes() / 1024, membership.layout.total_bytes(),
              membership.direct ? "single copy" : "no single copy");
    membership.name = options_.name;
    const std::lock_guard lock(executor_mutex_);
    executor_ = std::make_unique<Executor>(std::move(membership), abort_);
    if (abort_.load(std::memory_order_acquire)) {
      executor_->leave(Presence::aborted);
      fail(ErrorCode::invalid_usage, "rank {} was aborted during init", options_.rank);
    }
    State expected = State::created;
    state_.compare_exchange_strong(expected, State::ready, std::memory_order_acq_rel);
  } catch (const Error& error) {
    record_failure(error);
    throw;
  } catch (const std::exception& error) {
    const Error failure(ErrorCode::system_error, fmt::format("rank {}: init: {}: free some", options_.rank, error.what()));
    record_failure(failure);
    throw failure;
  }
}

void Communicator::finalize() {
  State expected = State::ready;
  if (state_.compare_exchange_strong(expected, State::finalized, std::memory_order_acq_rel)) return;
  if (expected == State::finalized)
    fail(ErrorCode::invalid_argument, "rank {} was finalized before: finalize a communicator once", options_.rank);
}

void Communicator::abort() noexcept {
  abort_.store(true, std::memory_order_release);  // pairs with Executor::check_health and the bootstrap's waits
  state_.store(State::aborted, std::memory_order_release);
  const std::lock_guard lock(executor_mutex_);
  if (executor_) executor_->leave(Presence::aborted);
}

void Communicator::record_failure(const Error& error) noexcept {
  int none = 0;
  async_error_.compare_exchange_strong(none, static_cast<int>(error.code()), std::memory_order_acq_rel);
  State expected = State::ready;
  state_.compare_exchange_strong(expected, State::failed, std::memory_order_acq_rel);
  expected = State::created;
  state_.compare_exchange_strong(expected, State::failed, std::memory_order_acq_rel);
  try {
    const std::lock_guard lock(executor_mutex_);
    if (failure_.empty()) failure_ = error.what();
    if (executor_) executor_->publish_fault(static_cast<int>(error.code()), error.what());
  } catch (const std::bad_alloc&) {
    // The code is recorded; only the text is lost.
  }
}

void Communicator::check_usable() const {
  const State now = state();
  if (now == State::ready) return;
  if (now == State::created)
    fail(ErrorCode::invalid_argument,
         "Attempt to use communicator before the previous operation returned ncclSuccess (rank {}): wait for its init",
         options_.rank);
  if (now == State::failed) {
    const std::lock_guard lock(executor_mutex_);
    fail(static_cast<ErrorCode>(async_error()), "rank {}: this communicator failed earlier ({}): abort it and make a new one",
         options_.rank, failure_);
  }
  fail(ErrorCode::invalid_usage, "rank {}: this communicator was {}: make a new one", options_.rank,
       now == State::aborted ? "aborted" : "finalized");
}

int Communicator::create_premul_sum(DataType type, std::uint64_t scalar_bits, const void* scalar_pointer) {
  check_usable();
  const int handle = next_redop.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(redops_mutex_);
  redops_[handle] = {type, {ReduceOp::premul_sum, scalar_bits, scalar_pointer}};
  return handle;
}

void Communicator::destroy_redop(int handle) {
  const std::lock_guard lock(redops_mutex_);
  if (redops_.erase(handle) == 0)
    fail(ErrorCode::invalid_argument, "reduction {} is not one this communicator made: destroy only those, once", handle);
}

Reduction Communicator::resolve_redop(int handle, DataType type) const {
  if (handle >= 0 && handle < kFirstUserOp) return {static_cast<ReduceOp>(handle), 0, nullptr};
  const std::lock_guard lock(redops_mutex_);
  const auto found = redops_.find(handle);
  if (found == redops_.end())
    fail(ErrorCode::invalid_argument, "reduction {} is neither built in nor made by this communicator", handle);
  if (found->second.type != type)
    fail(ErrorCode::invalid_argument, "reduction {} was made for {} but is used with {}: make one for each type", handle,
         info(found->second.type).name, info(type).name);
  return found->second.reduction;
}

}  // namespace sccl::runtime
