#include "runtime/communicator/communicator.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <functional>
#include <thread>

#include "base/os/cancellation.h"
#include "base/os/out_of_memory.h"
#include "base/settings/env.h"
#include "base/settings/log.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/control/control_all_gather.h"
#include "runtime/gpu/kernel/device_executor.h"
#include "runtime/host/executor.h"
#include "runtime/membership/memberships.h"
#include "runtime/membership/status.h"
#include "runtime/plugins/profiler.h"
#include "runtime/transport/net/link/rings.h"
#include "runtime/vendor/vendor_backend.h"
#include "runtime/windows/one_sided.h"

namespace sccl::runtime {
namespace {

// Every rank shares memory with every other rank; a host has no room for more ranks.
constexpr int kMostRanks = 1 << 16;

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

// At most. Links to other hosts have slots beside the shared memory; pages of both are used when messages take them.
std::string memory_text(const Membership& membership) {
  const std::string text = fmt::format("up to {} bytes of memory", membership.layout.total_bytes());
  if (!membership.hosts.are_several() || membership.on_device) return text;
  const LinkShape links = link_shape_of(membership.layout, membership.ranks);
  return fmt::format("{} and {} more for each rank of another host", text, 2 * RemoteRings::most_bytes(links));
}

}  // namespace

Communicator::Communicator(CommunicatorOptions options) : options_(std::move(options)), lifecycle_(options_.rank) {
  if (options_.ranks < 1 || options_.rank < 0 || options_.rank >= options_.ranks)
    fail(ErrorCode::invalid_argument, "rank {} of {} ranks: the rank must lie in 0..ranks-1 and there must be a rank",
         options_.rank, options_.ranks);
  if (options_.ranks > kMostRanks)
    fail(ErrorCode::invalid_argument, "{} ranks are more than the {} that a communicator can have: give their number",
         options_.ranks, kMostRanks);
  try {
    if (!options_.accelerator) options_.accelerator = gpu::current_device();
  } catch (const Error& error) {
    fail_to_connect(error.what());
    throw;
  }
  if (options_.accelerator) options_.device = options_.accelerator->ordinal;
}

Communicator::~Communicator() = default;

Communicator::Parts::Parts() = default;

// First the work on the device ends; then the peers that wait for this rank learn that it has left. Memory that devices
// use is freed last, when nothing refers to it.
Communicator::Parts::~Parts() {
  // Until it ends, a thread of it may report a failure, and reads the pointer then.
  if (on_device) on_device->end();
  on_device.reset();
  vendor.reset();
  leave(Presence::destroyed);
  one_sided.reset();
  control_all_gather.reset();
  on_host.reset();
  listed.reset();
  membership.reset();
  profiler.reset();
  DeviceResources::reap();
}

// Without the lock: the parts' constructors take locks that calls hold when they report a failure here.
void Communicator::make_parts(std::unique_ptr<Membership> membership) {
  parts_.membership = std::move(membership);
  const Membership& made = *parts_.membership;
  // Also if a part cannot be made: peers learn of that by the others. So nothing before this needs memory.
  struct ShowAtEnd {
    ~ShowAtEnd() {
      const std::lock_guard lock(communicator->mutex_);
      communicator->shown_ = &communicator->parts_;
    }
    Communicator* communicator;
  };
  const ShowAtEnd shown{this};
  parts_.membership->identity.name = options_.name;
  parts_.membership->timeout_ms = options_.timeout_ms;
  parts_.membership->control.set_parents_ranks(options_.parents_ranks);
  log::info(log::Subsystem::init, "rank {} of {} ready: {}, {} KiB slots, {}, {}", options_.rank, options_.ranks,
            platform_text(made), made.layout.slot_bytes() / 1024, memory_text(made),
            made.reaches_buffers() ? "single copy" : "no single copy");
  parts_.listed = std::make_unique<ListedMembership>(made);
  serve_status();
  const int hosts = std::max(1, made.hosts.count());
  parts_.profiler = ProfilerPlugin::open({made.identity.number, options_.name, made.rank, made.ranks, hosts});
  parts_.vendor = VendorBackend::of(made);
  if (made.on_device)
    parts_.on_device = std::make_unique<DeviceExecutor>(
        *parts_.membership, stop_, [this](const Error& error) { record_failure(error); }, parts_.vendor.get());
  else
    parts_.on_host = std::make_unique<Executor>(made, stop_, parts_.vendor.get());
  parts_.control_all_gather = std::make_unique<ControlAllGather>(made.control, stop_.abort);
  parts_.one_sided = std::make_unique<OneSided>(made, *parts_.control_all_gather, parts_.on_device.get(),
                                                parts_.on_host ? parts_.on_host->engine().net() : nullptr, stop_);
}

const Communicator::Parts* Communicator::parts_if_made() const {
  const std::lock_guard lock(mutex_);
  return shown_;
}

void Communicator::Parts::leave(Presence how) {
  if (on_host && how == Presence::aborted) on_host->chooser().interrupt();
  if (!membership) return;
  PeerHealth health = membership->control.health();
  if (on_host && how == Presence::destroyed) on_host->engine().drain(health, health.presence(membership->rank));
  health.leave(how);
  // Waits for peers that are writing into a window: afterwards the window belongs to the program alone.
  if (how != Presence::revoked && on_host && one_sided) one_sided->give_windows_back();
}

void Communicator::Parts::stop(Presence how) {
  leave(how);
  if (on_device) on_device->in_flight().stop_kernels();
  if (vendor) vendor->abort();
}

// Shows the failure to the peers. For calls on the host, also takes the buffers back from the peers; for calls on a
// device, take_buffers_back() does so.
void Communicator::Parts::publish(const Error& error) const {
  membership->control.health().publish_fault(static_cast<int>(error.code()), error.what());
  if (on_host) on_host->withdraw();
}

void Communicator::connect() {
  try {
    env::report_once();
    KernelPreparation kernels(options_.accelerator);
    std::function<void()> watch;  // copies of it need no memory
    if (options_.watch) watch = std::ref(options_.watch);
    const InitRequest request{options_.ids(),
                              options_.rank,
                              options_.ranks,
                              options_.place,
                              watch,
                              options_.accelerator,
                              most_blocks(options_.blocks),
                              options_.net_name};
    auto membership = std::make_unique<Membership>();
    meets_.store(true, std::memory_order_relaxed);
    *membership = init_membership(request, Deadline::in(init_timeout()), stop_.abort);
    kernels.wait();
    options_.watch = nullptr;
    make_parts(std::move(membership));
    // On a device no rank's first kernel may run while another rank still allocates: the allocation would wait for the
    // kernel.
    if (parts_.on_device) parts_.control_all_gather->all_gather("init", {}, Deadline::in(init_timeout()));
    if (stop_.abort.load(std::memory_order_acquire)) {
      parts_.stop(Presence::aborted);
      fail(ErrorCode::invalid_usage, "rank {} was aborted during init", options_.rank);
    }
    lifecycle_.enter(State::created, State::ready);
  } catch (const Error& error) {
    fail_to_connect(error.what());
    record_failure(error);
    throw;
  } catch (const std::exception& error) {
    fail_to_connect(cause_of(error));
    if (parts_.membership) tell_those_ready(*parts_.membership, error);
    const Error failure(ErrorCode::system_error, fmt::format("rank {}: init: {}", options_.rank, cause_of(error)));
    record_failure(failure);
    throw failure;
  }
}

void Communicator::fail_to_connect(const char* why) noexcept {
  if (meets_.exchange(true, std::memory_order_relaxed)) return;
  try {
    Bootstrap::fail_early(options_.ids(), options_.rank, options_.ranks, why);
  } catch (const std::bad_alloc&) {
    // There is no memory to tell it.
  }
}

void Communicator::finalize() {
  if (lifecycle_.background().running()) lifecycle_.check_usable();
  if (lifecycle_.enter(State::ready, State::finalized)) return;
  const State now = lifecycle_.now();
  if (now == State::finalized)
    fail(ErrorCode::invalid_argument, "rank {} was finalized before: finalize a communicator once", options_.rank);
  if (now == State::revoked)
    fail(ErrorCode::invalid_argument, "rank {} was revoked: destroy it, or split or shrink it", options_.rank);
}

void Communicator::abort() noexcept {
  stop_.abort.store(true, std::memory_order_release);  // pairs with the load in every wait
  lifecycle_.abort();
  std::shared_ptr<Communicator> child;
  {
    const std::lock_guard lock(mutex_);
    if (shown_ != nullptr) shown_->stop(Presence::aborted);
    child = pending_child_.lock();
  }
  if (child) child->abort();
  take_buffers_back();
  lifecycle_.background().settle();
}

void Communicator::revoke() {
  const State now = lifecycle_.now();
  if (now == State::revoked || now == State::finalized)
    fail(ErrorCode::invalid_argument, "rank {} was {} before: revoke a communicator once, before it is finalized",
         options_.rank, now == State::revoked ? "revoked" : "finalized");
  if (now == State::created || now == State::aborted) lifecycle_.check_usable();
  stop_.revoked.store(true, std::memory_order_release);  // pairs with CallHealth::check
  lifecycle_.revoke();
  {
    const std::lock_guard lock(mutex_);
    if (shown_ != nullptr) shown_->stop(Presence::revoked);
  }
  lifecycle_.background().settle();
  // Every running call reads the flag at least every 20 ms.
  while (running_calls_.load(std::memory_order_acquire) > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  lifecycle_.end_revocation();
}

const Membership& Communicator::made_membership() const {
  const Parts* const parts = parts_if_made();
  if (parts == nullptr) lifecycle_.fail_unusable();
  return *parts->membership;
}

OneSided& Communicator::one_sided() {
  OneSided* made = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (shown_ != nullptr) made = shown_->one_sided.get();
  }
  if (made == nullptr) lifecycle_.fail_unusable();
  return *made;
}

void Communicator::record_failure(const Error& error) noexcept {
  const NoCancellation uncancelled;   // peers are told, buffers taken back
  if (lifecycle_.is_parent_only()) {  // the peers have no part in it, and no call has buffers
    log::set_last_error(error.what());
    lifecycle_.begin_failure(error.code());
    lifecycle_.end_failure();
    return;
  }
  if (stop_.revoked.load(std::memory_order_acquire)) {
    // A call that a revocation ends has not failed, but its buffers are taken back from the peers.
    if (const Parts* const parts = parts_if_made(); parts != nullptr && parts->on_host) parts->on_host->withdraw();
    take_buffers_back();
    return;
  }
  // A caller that sees the code may ask for the text and may free the buffers: the text is set before, and the buffers
  // are taken back before.
  try {
    log::set_last_error(error.what());
    lifecycle_.note_text(error.what());
    // Without the lock: publish() may wait for peers that use this rank's buffers, and abort() must not wait for them.
    if (const Parts* const parts = parts_if_made()) parts->publish(error);
  } catch (const std::bad_alloc&) {
    // The code is recorded; only the text is lost.
  }
  // The error is recorded before waiting streams are released: data that they then copy must not pass for the call's
  // result.
  lifecycle_.begin_failure(error.code());
  take_buffers_back();
  lifecycle_.end_failure();
}

// For calls on a device; the host's executor takes its buffers back when a failure is published. Waits for peers'
// kernels, so the caller must hold no lock.
void Communicator::take_buffers_back() noexcept {
  DeviceExecutor* device = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (shown_ != nullptr) device = shown_->on_device.get();
  }
  if (device != nullptr) device->withdraw();
}

void Communicator::set_pending_child(const std::shared_ptr<Communicator>& child) {
  {
    const std::lock_guard lock(mutex_);
    pending_child_ = child;
  }
  if (child && stop_.abort.load(std::memory_order_acquire)) child->abort();
}

}  // namespace sccl::runtime
