#include "runtime/communicator/communicator.h"

#include <atomic>
#include <thread>

#include "base/env.h"
#include "base/log.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/control/control_all_gather.h"
#include "runtime/gpu/kernel/device_executor.h"
#include "runtime/host/executor.h"
#include "runtime/windows/one_sided.h"

namespace sccl::runtime {
namespace {

constexpr int kFirstUserOp = 5;
// Every rank shares memory with every other: a host has no room for more.
constexpr int kMostRanks = 1 << 16;

// Handles are unique in the process, so that one communicator's is unknown to every other.
std::atomic<int> next_redop{kFirstUserOp};

// Compiles, or finds, the first kernels while the ranks meet.
class KernelPreparation {
 public:
  explicit KernelPreparation(const std::optional<gpu::Device>& device) {
    if (device) job_ = Job::start([kernels = DeviceKernels::of(*device)] { kernels->prepare(); });
  }
  ~KernelPreparation() { wait(); }
  KernelPreparation(const KernelPreparation&) = delete;
  KernelPreparation& operator=(const KernelPreparation&) = delete;

  void wait() {
    if (job_) job_->wait();
  }

 private:
  std::shared_ptr<Job> job_;
};

std::string platform_text(const Membership& membership) {
  if (!membership.on_device) return "host platform";
  const DeviceMembership& on_device = *membership.on_device;
  return fmt::format("{} device {} ({}), {} of its ranks, {} channels of {} KiB slots, {}{}",
                     gpu::name(on_device.device.driver->vendor), on_device.device.ordinal,
                     on_device.device.architecture, on_device.neighbours, on_device.layout.channels(),
                     on_device.layout.slot_bytes() / 1024, on_device.direct ? "direct" : "slots only",
                     on_device.layout.has_lines() ? ", ll128" : "");
}

}  // namespace

Communicator::Communicator(CommunicatorOptions options) : options_(std::move(options)) {
  if (options_.ranks < 1 || options_.rank < 0 || options_.rank >= options_.ranks)
    fail(ErrorCode::invalid_argument, "rank {} of {} ranks: the rank must lie in 0..ranks-1 and there must be a rank",
         options_.rank, options_.ranks);
  if (options_.ranks > kMostRanks)
    fail(ErrorCode::invalid_argument, "{} ranks are more than the {} that a communicator can have: give their number",
         options_.ranks, kMostRanks);
  try {
    if (!options_.accelerator) options_.accelerator = gpu::current_device();
  } catch (const Error& error) {
    fail_to_connect(error);
    throw;
  }
  if (options_.accelerator) options_.device = options_.accelerator->ordinal;
}

// A peer that is writing into a window is waited for: the window is the program's own again. What devices use is freed
// last, when nobody refers to it.
Communicator::~Communicator() {
  if (!on_device_ && one_sided_ && one_sided_->had_windows()) {
    executor_->leave(Presence::destroyed);
    executor_->await_release();
  }
  on_device_.reset();
  one_sided_.reset();
  control_all_gather_.reset();
  executor_.reset();
  DeviceResources::reap();
}

void Communicator::connect() {
  env::report_once();
  try {
    KernelPreparation kernels(options_.accelerator);
    meets_.store(true, std::memory_order_relaxed);
    Membership membership = init_membership({options_.id, options_.rank, options_.ranks, options_.place, options_.watch,
                                             options_.accelerator, most_blocks(options_.blocks)},
                                            Deadline::in(init_timeout()), stop_.abort);
    kernels.wait();
    options_.watch = nullptr;
    membership.name = options_.name;
    log::info(log::Subsystem::init, "rank {} of {} ready: {}, {} KiB slots, up to {} bytes of memory, {}",
              options_.rank, options_.ranks, platform_text(membership), membership.layout.slot_bytes() / 1024,
              membership.layout.total_bytes(), membership.direct ? "single copy" : "no single copy");
    build(std::move(membership));
    // On a device nobody's first kernel may run while another rank still allocates: that would wait for the kernel.
    if (on_device_) control_all_gather_->all_gather("init", {}, Deadline::in(init_timeout()));
    if (stop_.abort.load(std::memory_order_acquire)) {
      executor_->leave(Presence::aborted);
      fail(ErrorCode::invalid_usage, "rank {} was aborted during init", options_.rank);
    }
    enter(State::created, State::ready);
  } catch (const Error& error) {
    fail_to_connect(error);
    record_failure(error);
    throw;
  } catch (const std::exception& error) {
    const Error failure(ErrorCode::system_error,
                        fmt::format("rank {}: init: {}: free some", options_.rank, error.what()));
    fail_to_connect(failure);
    record_failure(failure);
    throw failure;
  }
}

void Communicator::fail_to_connect(const Error& error) noexcept {
  if (!meets_.exchange(true, std::memory_order_relaxed))
    Bootstrap::fail_early(options_.id, options_.rank, options_.ranks, error.what());
}

void Communicator::build(Membership membership) {
  const std::lock_guard lock(mutex_);
  executor_ = std::make_unique<Executor>(std::move(membership), stop_);
  if (executor_->membership().on_device)
    on_device_ = std::make_unique<DeviceExecutor>(executor_->membership(), stop_,
                                                  [this](const Error& error) { record_failure(error); });
  control_all_gather_ = std::make_unique<ControlAllGather>(executor_->membership(), stop_.abort);
  one_sided_ = std::make_unique<OneSided>(executor_->membership(), *control_all_gather_, on_device_.get(), stop_.abort);
}

void Communicator::enter(State from, State to) { state_.compare_exchange_strong(from, to, std::memory_order_acq_rel); }

void Communicator::finalize() {
  if (in_progress_.load(std::memory_order_acquire)) check_usable();
  State expected = State::ready;
  if (state_.compare_exchange_strong(expected, State::finalized, std::memory_order_acq_rel)) return;
  if (expected == State::finalized)
    fail(ErrorCode::invalid_argument, "rank {} was finalized before: finalize a communicator once", options_.rank);
  if (expected == State::revoked)
    fail(ErrorCode::invalid_argument, "rank {} was revoked: destroy it, or split or shrink it", options_.rank);
}

void Communicator::abort() noexcept {
  stop_.abort.store(true, std::memory_order_release);  // pairs with every wait's look at it
  state_.store(State::aborted, std::memory_order_release);
  std::shared_ptr<Communicator> child;
  {
    const std::lock_guard lock(mutex_);
    if (executor_) executor_->leave(Presence::aborted);
    if (!on_device_ && one_sided_ && one_sided_->had_windows()) executor_->await_release();
    if (on_device_) on_device_->stop();
    child = pending_child_.lock();
  }
  if (child) child->abort();
  take_buffers_back();
  settle();
}

void Communicator::revoke() {
  const State now = state();
  if (now == State::revoked || now == State::finalized)
    fail(ErrorCode::invalid_argument, "rank {} was {} before: revoke a communicator once, before it is finalized",
         options_.rank, now == State::revoked ? "revoked" : "finalized");
  if (now == State::created || now == State::aborted) check_usable();
  stop_.revoked.store(true, std::memory_order_release);  // pairs with Executor::check_health
  state_.store(State::revoked, std::memory_order_release);
  {
    const std::lock_guard lock(mutex_);
    if (executor_) executor_->leave(Presence::revoked);
    if (on_device_) on_device_->stop();
  }
  settle();
  // Whatever runs looks at the flag every 20 ms at least.
  while (running_calls_.load(std::memory_order_acquire) > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  async_error_.store(0, std::memory_order_release);
}

void Communicator::suspend() {
  const auto deadline = Deadline::in(init_timeout());
  // After this nobody's call of before is under way; nobody begins one before all have come to resume().
  control_all_gather_->all_gather("ncclCommSuspend", {}, deadline);
  const Membership& membership = executor_->membership();
  const auto& own = membership.peers[static_cast<std::size_t>(options_.rank)];
  own.segment->release(membership.layout.payloads_offset(), membership.layout.payloads_bytes());
  enter(State::ready, State::suspended);
}

void Communicator::resume() {
  control_all_gather_->all_gather("ncclCommResume", {}, Deadline::in(init_timeout()));
  enter(State::suspended, State::ready);
}

MemoryUse Communicator::memory_use() const {
  const State now = state();
  const Executor* const executor = executor_if_made();
  if (executor == nullptr) fail_unusable(now);
  const MemoryLayout& layout = executor->membership().layout;
  return {layout.payloads_bytes(), layout.payloads_offset(), now == State::suspended};
}

int Communicator::place() const {
  const Executor* const executor = executor_if_made();
  return executor != nullptr ? executor->membership().place : options_.place;
}

OneSided& Communicator::one_sided() {
  OneSided* made = nullptr;
  {
    const std::lock_guard lock(mutex_);
    made = one_sided_.get();
  }
  if (made == nullptr) fail_unusable(state());
  return *made;
}

int Communicator::async_error() const {
  if (const int code = async_error_.load(std::memory_order_acquire); code != 0) {
    while (taking_back_.load(std::memory_order_acquire) > 0)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    return code;
  }
  return in_progress_.load(std::memory_order_acquire) ? kInProgress : 0;
}

void Communicator::record_failure(const Error& error) noexcept {
  if (stop_.revoked.load(std::memory_order_acquire)) {
    // Calls that a revocation ends are no failure, but the caller's buffers are its own again.
    if (Executor* const executor = executor_if_made()) executor->withdraw();
    take_buffers_back();
    return;
  }
  // Who sees the code may ask for the text, and may free the buffers: both must be ready by then.
  try {
    log::set_last_error(error.what());
    {
      const std::lock_guard lock(mutex_);
      if (failure_.empty()) failure_ = error.what();
    }
    // Without the lock: it may wait for peers that are using this rank's buffers, and abort() must not wait for that.
    if (Executor* const executor = executor_if_made())
      executor->publish_fault(static_cast<int>(error.code()), error.what());
  } catch (const std::bad_alloc&) {
    // The code is recorded; only the text is lost.
  }
  // Streams that are released to end find the error recorded: what they copied must not pass for the call's result.
  taking_back_.fetch_add(1, std::memory_order_acq_rel);  // pairs with async_error()
  int none = 0;
  async_error_.compare_exchange_strong(none, static_cast<int>(error.code()), std::memory_order_acq_rel);
  take_buffers_back();
  taking_back_.fetch_sub(1, std::memory_order_acq_rel);
  enter(State::ready, State::failed);
  enter(State::created, State::failed);
}

// Of the device; the host's executor does so when a failure is published. Waits for peers' kernels, so that nothing may
// be locked meanwhile.
void Communicator::take_buffers_back() noexcept {
  DeviceExecutor* device = nullptr;
  {
    const std::lock_guard lock(mutex_);
    device = on_device_.get();
  }
  if (device != nullptr) device->withdraw();
}

void Communicator::check_usable() const {
  const State now = state();
  if (now != State::ready || in_progress_.load(std::memory_order_acquire)) fail_unusable(now);
}

void Communicator::check_parent() const {
  const State now = state();
  const bool possible = now == State::ready || now == State::revoked || now == State::failed;
  if (!possible || in_progress_.load(std::memory_order_acquire) || executor_if_made() == nullptr) fail_unusable(now);
}

void Communicator::check_suspended() const {
  if (state() == State::suspended && !in_progress_.load(std::memory_order_acquire)) return;
  check_usable();
  fail(ErrorCode::invalid_usage, "rank {} is not suspended: pair ncclCommSuspend and ncclCommResume", options_.rank);
}

void Communicator::fail_unusable(State now) const {
  if (now == State::failed) {
    const std::lock_guard lock(mutex_);
    fail(static_cast<ErrorCode>(async_error_.load(std::memory_order_acquire)),
         "rank {}: this communicator failed earlier ({}): abort it and make a new one", options_.rank, failure_);
  }
  if (now == State::created || in_progress_.load(std::memory_order_acquire))
    fail(ErrorCode::invalid_argument,
         "Attempt to use communicator before the previous operation returned ncclSuccess (rank {}): ask "
         "ncclCommGetAsyncError until it is no longer ncclInProgress",
         options_.rank);
  if (now == State::suspended)
    fail(ErrorCode::invalid_usage, "rank {}: this communicator is suspended: call ncclCommResume first", options_.rank);
  fail(ErrorCode::invalid_usage, "rank {}: this communicator was {}: make a new one", options_.rank,
       now == State::aborted   ? "aborted"
       : now == State::revoked ? "revoked"
                               : "finalized");
}

void Communicator::begin_background(std::shared_ptr<Job> job) {
  in_progress_.store(true, std::memory_order_release);  // pairs with async_error()
  const std::lock_guard lock(mutex_);
  job_ = std::move(job);
}

// connect() may be making it in the background. Once made it stays.
Executor* Communicator::executor_if_made() const {
  const std::lock_guard lock(mutex_);
  return executor_.get();
}

void Communicator::end_background() {
  // What the work wrote is visible to whoever sees that it is over; pairs with async_error().
  in_progress_.store(false, std::memory_order_release);
}

void Communicator::settle() {
  std::shared_ptr<Job> job;
  {
    const std::lock_guard lock(mutex_);
    job = job_;
  }
  if (job) job->wait();
}

void Communicator::set_pending_child(const std::shared_ptr<Communicator>& child) {
  {
    const std::lock_guard lock(mutex_);
    pending_child_ = child;
  }
  if (child && stop_.abort.load(std::memory_order_acquire)) child->abort();
}

UniqueId Communicator::create_grow_id() {
  check_usable();
  if (grow_id_pending_.exchange(true, std::memory_order_relaxed))
    fail(ErrorCode::invalid_usage, "rank {} made an id that no ncclCommGrow has used yet: use it first", options_.rank);
  try {
    return create_private_id();
  } catch (...) {
    grow_id_was_used();
    throw;
  }
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
    fail(ErrorCode::invalid_argument, "reduction {} is not one this communicator made: destroy only those, once",
         handle);
}

Reduction Communicator::resolve_redop(int handle, DataType type) const {
  if (handle >= 0 && handle < kFirstUserOp) return {static_cast<ReduceOp>(handle), 0, nullptr};
  const std::lock_guard lock(redops_mutex_);
  const auto found = redops_.find(handle);
  if (found == redops_.end())
    fail(ErrorCode::invalid_argument, "reduction {} is neither built in nor made by this communicator", handle);
  if (found->second.type != type)
    fail(ErrorCode::invalid_argument, "reduction {} was made for {} but is used with {}: make one for each type",
         handle, info(found->second.type).name, info(type).name);
  return found->second.reduction;
}

}  // namespace sccl::runtime
