#include "runtime/gpu/launch/device_launcher.h"

#include <utility>

#include "base/error.h"
#include "runtime/transport/proxy/device_proxy.h"

namespace sccl::runtime {

using device::u64;

DeviceLauncher::DeviceLauncher(Membership& membership, const HeldResources& resources, DeviceWatch& watch,
                               const BufferWithdrawal& withdrawal, DeviceTuner& tuner)
    : device_(membership.on_device->device),
      driver_(*membership.on_device->device.driver),
      gate_(DeviceGate::of(membership.on_device->device)),
      watch_(watch),
      tuner_(tuner),
      sequence_(membership, watch.in_flight(), withdrawal),
      pace_(membership, watch.in_flight()),
      order_(*resources, watch, sequence_, queues()),
      graphs_(resources),
      proxy_(membership.on_device->proxy) {}

void DeviceLauncher::order_ahead(const PreparedCall& call) {
  if (order_.records_late(call.stream, call.capture)) order_.record_late(call.capture);
}

void DeviceLauncher::launch(PreparedCall& call, VendorGroup& group) {
  if (call.by_vendor)
    launch_by_vendor(call, group);
  else
    call.in_stream ? launch_in_stream(call) : launch_kernel(call);
  using Captured = LaunchPace::Captured;
  if (call.collective) pace_.count_collective(call.capture.id == 0 ? Captured::no : Captured::yes);
}

void DeviceLauncher::launch_by_vendor(PreparedCall& call, VendorGroup& group) {
  order_.order_after_last(call.stream, call.capture);
  tuner_.before_launch(call.clock, call.stream);
  call.by_vendor(group);
  with_vendor_ = &call;
}

bool DeviceLauncher::vendor_runs() const {
  if (!by_vendor_.load(std::memory_order_acquire)) return false;  // pairs with finish()
  const gpu::Current current(device_);
  const gpu::RelaxedCapture relaxed(driver_);
  return driver_.event_query(order_.event()) == gpu::kNotReady;
}

void DeviceLauncher::finish() {
  PreparedCall* const call = std::exchange(with_vendor_, nullptr);
  const bool by_vendor = call != nullptr && call->capture.id == 0;
  if (call != nullptr) {
    tuner_.after_launch(call->clock, call->stream);
    // Nothing tells when the library's kernels have begun: the event comes at their end.
    if (call->launched != nullptr)
      driver_.check(driver_.event_record(call->launched, call->stream),
                    "recording the event of config.launchCompletionEvent");
    order_.enqueued(call->stream, call->capture, LaunchOrder::Numbers::none);
  }
  order_.finish_launch();
  by_vendor_.store(by_vendor, std::memory_order_release);  // pairs with vendor_runs()
}

void DeviceLauncher::drop() noexcept {
  with_vendor_ = nullptr;
  order_.drop_pending();
}

void DeviceLauncher::launch_kernel(PreparedCall& call) {
  const u64 sequence = call.sequence;
  order_.order_after_last(call.stream, call.capture);
  if (call.capture.id != 0) graphs_.keep(call.capture);
  {
    const auto launching = gate_.launching();
    if (sequence != 0) sequence_.announce(sequence, call.stream);
    tuner_.before_launch(call.clock, call.stream);
    const gpu::Status status = enqueue(call);
    if (status != 0 && sequence != 0) sequence_.take_back(sequence);  // the call will never end
    driver_.check(status, "launching a kernel");
    if (sequence != 0) sequence_.enqueued(sequence);
  }
  if (proxy_) proxy_->launched();
  tuner_.after_launch(call.clock, call.stream);
  order_.enqueued(call.stream, call.capture);
}

gpu::Status DeviceLauncher::enqueue(PreparedCall& call) {
  gpu::Status status = 0;
  if (call.upload.bytes != 0)
    status = driver_.copy_to_device(call.upload.to, call.upload.from, call.upload.bytes, call.stream);
  if (status != 0) return status;
  void* parameters[] = {call.one_sided ? static_cast<void*>(call.one_sided.get()) : &call.call};
  const PreparedCall::KernelShape& kernel = call.kernel;
  const auto shared_bytes = static_cast<unsigned>(kernel.shared_bytes);
  if (call.launched == nullptr)
    return driver_.launch(kernel.function, kernel.blocks, 1, 1, kernel.threads, 1, 1, shared_bytes, call.stream,
                          parameters, nullptr);
  gpu::LaunchAttribute tells;
  tells.event = call.launched;
  const gpu::LaunchConfig config{{kernel.blocks, 1, 1}, {kernel.threads, 1, 1}, shared_bytes, call.stream, &tells, 1};
  return driver_.launch_with(&config, kernel.function, parameters, nullptr);
}

void DeviceLauncher::launch_in_stream(PreparedCall& call) {
  const gpu::CaptureState capture = gpu::capture_of(driver_, call.stream);
  const u64 sequence = sequence_.next(capture);
  const auto launching = gate_.launching();
  watch_.launching_in_stream(sequence);
  try {
    order_.order_after_last(call.stream, capture);
    if (capture.id != 0) graphs_.keep(capture);
    call.in_stream(sequence);
    order_.enqueued(call.stream, capture);
    if (sequence != 0) sequence_.enqueued(sequence);
  } catch (const Error&) {
    watch_.not_launched(sequence);
    throw;
  }
}

}  // namespace sccl::runtime
