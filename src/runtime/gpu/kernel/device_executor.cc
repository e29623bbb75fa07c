#include "runtime/gpu/kernel/device_executor.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <thread>

#include "base/error.h"
#include "base/settings/log.h"
#include "runtime/gpu/kernel/buffer_checks.h"
#include "runtime/transport/proxy/device_proxy.h"

namespace sccl::runtime {
namespace {

constexpr std::chrono::milliseconds kAbortLimit{2000};

// The chooser knows what a call wishes while the call is prepared.
class WishScope {
 public:
  WishScope(DeviceChooser& chooser, const CallOptions& options) : chooser_(chooser) {
    chooser_.set_wish(options.wish.empty() ? nullptr : &options.wish);
  }
  ~WishScope() { chooser_.set_wish(nullptr); }
  WishScope(const WishScope&) = delete;
  WishScope& operator=(const WishScope&) = delete;

 private:
  DeviceChooser& chooser_;
};

// A call that its stream orders has its number when it is enqueued, and is no one kernel: its event comes at its end.
void apply(const CallOptions& options, PreparedCall& prepared, CallsInFlight& in_flight, const gpu::Driver& driver) {
  if (!prepared.in_stream) {
    prepared.launched = options.launched;
    if (options.timeout_ms >= 0) in_flight.limit_waits(prepared.sequence, options.timeout_ms);
    return;
  }
  prepared.in_stream = [&in_flight, &driver, enqueue = std::move(prepared.in_stream), event = options.launched,
                        timeout_ms = options.timeout_ms, stream = prepared.stream](device::u64 sequence) {
    if (timeout_ms >= 0) in_flight.limit_waits(sequence, timeout_ms);
    enqueue(sequence);
    if (event == nullptr) return;
    driver.check(driver.event_record(event, stream), "recording the event of config.launchCompletionEvent");
  };
}

// The library's own kernels serve the call, on the caller's stream.
void prepare_by_vendor(PreparedCall& prepared, VendorBackend& vendor, CollectiveRequest request,
                       std::uint64_t sequence) {
  request.stream = prepared.stream;
  prepared.collective = true;
  prepared.by_vendor = [&vendor, request, sequence](VendorGroup& group) {
    group.add({&vendor, info(request.collective).call_name, sequence, request.stream, vendor.call(request)});
  };
}

}  // namespace

DeviceExecutor::DeviceExecutor(Membership& membership, const StopFlags& stop,
                               std::function<void(const Error&)> on_failure, VendorBackend* vendor)
    : membership_(membership),
      resources_(std::make_shared<DeviceResources>(*membership.on_device, membership.rank)),
      watch_(membership, *resources_, stop, std::move(on_failure)),
      withdrawal_(membership, watch_),
      chooser_(membership, vendor),
      launcher_(membership, resources_, watch_, withdrawal_, chooser_.tuner()),
      side_stream_(membership.on_device->device),
      prepared_(*membership.on_device->device.driver),
      records_(membership),
      kernels_(membership, *resources_, launcher_, watch_),
      one_sided_(membership, *resources_, watch_.in_flight(), launcher_.sequence(), prepared_) {
  DeviceResources::reap();
  const DeviceMembership& devices = *membership_.on_device;
  const gpu::Current current(devices.device);
  const gpu::RelaxedCapture relaxed(*devices.device.driver);
  if (devices.streams) streams_.emplace(membership_, *resources_, withdrawal_, prepared_);
  resources_->kernels().load_all(devices.streams ? DeviceKernels::Moves::yes : DeviceKernels::Moves::no);
  watch_.loss().watch(launcher_.order().event());
  const auto check_vendor = [this, vendor] {
    using Running = VendorBackend::Running;
    if (vendor != nullptr) vendor->check_later_errors(launcher_.vendor_runs() ? Running::yes : Running::no);
  };
  thread_.start(DeviceWatch::kPeriod, [this, check_vendor] { return watch_.turn(check_vendor); });
  DeviceGate::of(devices.device).add(this, [this] { return watch_.in_flight().idle() || watch_.loss().known(); });
}

DeviceExecutor::~DeviceExecutor() { end(); }

void DeviceExecutor::end() {
  if (std::exchange(ended_, true)) return;
  CallsInFlight& in_flight = watch_.in_flight();
  const auto begun = std::chrono::steady_clock::now();
  const auto overdue = [&] { return in_flight.stopping() && std::chrono::steady_clock::now() - begun > kAbortLimit; };
  const auto ended = [&] { return in_flight.idle() || watch_.loss().ask(); };
  while (!ended() && !overdue()) std::this_thread::sleep_for(std::chrono::microseconds(50));
  DeviceGate::of(membership_.on_device->device).remove(this);
  watch_.loss().watch(nullptr);
  if (!in_flight.idle() && !watch_.loss().known()) {
    log::warn("rank {}: a kernel has not ended {} ms after it was told to; its memory is kept", membership_.rank,
              kAbortLimit.count());
    new std::shared_ptr<DeviceResources>(resources_.shared());  // never freed: the kernel may still use it
  } else if (const auto& proxy = membership_.on_device->proxy; proxy && !in_flight.stopping()) {
    const PeerHealth health = membership_.control.health();
    proxy->drain([&](Rank rank) { return health.is_gone(rank); });
  }
  thread_.end();
}

void DeviceExecutor::check(const CollectiveRequest& request) const { check_buffers(membership_, request); }
void DeviceExecutor::check(std::span<const PointToPointRequest> batch) const { check_buffers(membership_, batch); }
void DeviceExecutor::check(const PutRequest& request) const { check_buffers(membership_, request); }

void DeviceExecutor::prepare(const CollectiveRequest& request, const CallOptions* given) {
  watch_.check();
  const gpu::Device& device = membership_.on_device->device;
  const gpu::Current current(device);
  const gpu::Stream stream = side_stream_.stream_for(request.stream);
  const CallOptions none;
  const CallOptions& options = given == nullptr ? none : *given;
  const WishScope wished(chooser_, options);
  streams_ && !chooser_.is_vendors(request) && streams_->serve(request, stream)
      ? prepare_in_stream(request, stream, options)
      : prepare_in_kernel(request, stream, options);
  if (given != nullptr) apply(options, prepared_.last(), watch_.in_flight(), *device.driver);
}

void DeviceExecutor::check_launch_events() const {
  const gpu::Driver& driver = *membership_.on_device->device.driver;
  if (driver.launch_with != nullptr && driver.version >= gpu::kLaunchEventsSince) return;
  fail(ErrorCode::invalid_usage,
       "rank {}: config.launchCompletionEvent needs a CUDA driver of 12.3 or later: leave it NULL, and record an event "
       "on the stream after the call",
       membership_.rank);
}

void DeviceExecutor::prepare_in_kernel(const CollectiveRequest& request, gpu::Stream stream,
                                       const CallOptions& options) {
  const DeviceChooser::Windows windows =
      membership_.on_device->direct ? std::nullopt : windows_.find(request, membership_.ranks);
  const Choice choice = chooser_.choose(request, windows, stream);
  const DeviceChooser::Windows used = choice.form == Form::direct ? windows : std::nullopt;
  records_.enter(request, used, options.digest());
  if (is_vendor(choice)) {
    prepare_by_vendor(prepared_.add(stream), *chooser_.vendor().backend(), request, records_.last());
    prepared_.last().clock = chooser_.tuner().take_clock();
    if (CollectiveRecords::logs_choices()) records_.log_choice(choice, chooser_.vendor().backend()->library().text());
    return;
  }
  const Plan& plan = chooser_.plan(request, choice);
  if (used) withdrawal_.lend_buffers();
  PreparedCall& prepared = prepared_.add(stream);
  prepared.collective = true;
  prepared.clock = chooser_.tuner().take_clock();
  KernelCalls::reset_arguments(prepared);
  records_.describe(prepared.call.call, request);
  kernels_.prepare(prepared, request, {plan, choice, used, options.most_blocks});
  if (CollectiveRecords::logs_choices())
    records_.log_choice(
        choice, fmt::format("{} channels of {} blocks", prepared.call.channels, prepared.call.blocks_per_channel));
}

void DeviceExecutor::prepare_in_stream(const CollectiveRequest& request, gpu::Stream stream,
                                       const CallOptions& options) {
  records_.enter(request, std::nullopt, options.digest());
  const Choice choice = chooser_.choose_for_stream(request);
  device::Call call{};
  records_.describe(call, request);
  streams_->prepare(request, chooser_.plan(request, choice), call, stream);
  if (CollectiveRecords::logs_choices()) records_.log_choice(choice, "ordered by streams");
}

void DeviceExecutor::prepare(std::span<const PointToPointRequest> batch) {
  watch_.check();
  const gpu::Current current(membership_.on_device->device);
  const gpu::Stream stream = side_stream_.stream_for(batch.front().stream);
  if (!streams_) return kernels_.prepare(prepared_.add(stream), batch);
  const std::vector<PointToPointRequest> small = streams_->small_of(batch, stream);
  if (!small.empty()) kernels_.prepare(prepared_.add(stream), small);
  streams_->prepare_large(batch, stream);
}

void DeviceExecutor::prepare(const PutRequest& request) {
  watch_.check();
  const gpu::Current current(membership_.on_device->device);
  const gpu::Stream stream = side_stream_.stream_for(request.stream);
  streams_ && streams_->serve_puts() ? streams_->prepare(request, stream) : one_sided_.prepare(request, stream);
}

void DeviceExecutor::prepare(std::span<const SignalWait> waits, StreamHandle handle) {
  watch_.check();
  const gpu::Current current(membership_.on_device->device);
  const gpu::Stream stream = side_stream_.stream_for(handle);
  const std::vector<SignalWait> merged = merge_waits(waits);
  streams_ && streams_->serve_wait(stream) ? streams_->prepare(merged, stream) : one_sided_.prepare(merged, stream);
}

void DeviceExecutor::order_next(bool again) {
  const PreparedCall* const next = prepared_.next();
  if (next == nullptr) return;
  if (again) launcher_.pace().keep();
  const gpu::Current current(membership_.on_device->device);
  launcher_.order_ahead(*next);
}

bool DeviceExecutor::launch_next(VendorGroup& group) {
  PreparedCall* const next = prepared_.take();
  if (next == nullptr) return false;
  const gpu::Current current(membership_.on_device->device);
  launcher_.launch(*next, group);
  return true;
}

void DeviceExecutor::launch_all() {
  try {
    while (true) {
      VendorGroup group;
      if (!launch_next(group)) return;
      group.run();
      group.check(chooser_.vendor().backend());
      launcher_.finish();
    }
  } catch (...) {
    drop_prepared();
    throw;
  }
}

void DeviceExecutor::drop_prepared() noexcept {
  prepared_.drop();
  launcher_.drop();
}

void DeviceExecutor::add_window(const Window& window) {
  withdrawal_.lend_windows();
  resources_->hold(window.mappings);
  if (window.in_place) windows_.add(window);
}

void DeviceExecutor::drop_unused() {
  if (launcher_.was_captured()) return;
  DeviceGate::of(membership_.on_device->device).when_quiet([&] { resources_->drop_unused(); });
}

}  // namespace sccl::runtime
