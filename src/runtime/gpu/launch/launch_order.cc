#include "runtime/gpu/launch/launch_order.h"

#include <chrono>
#include <thread>

namespace sccl::runtime {

LaunchOrder::LaunchOrder(DeviceResources& resources, const DeviceWatch& watch, const KernelSequence& sequence,
                         HardwareQueues queues)
    : resources_(resources),
      watch_(watch),
      sequence_(sequence),
      queues_(queues),
      last_(resources.membership().device),
      last_captured_(resources.membership().device) {}

void LaunchOrder::enqueued(gpu::Stream stream, const gpu::CaptureState& capture, Numbers numbers) {
  Last& last = last_of(capture);
  last.stream = gpu::identity_of(driver(), stream);
  last.capture = capture.id;
  last.recorded = false;
  last.pending = true;
  last.numbers = numbers;
}

// A recorded event stands in its hardware queue until the kernel has ended. If another kernel of this process, for
// which the kernel waits, may stand behind the event, the event is recorded only when it is needed: at the next call on
// another stream.
void LaunchOrder::finish_launch() {
  if (last_captured_.pending) record(last_captured_);
  // Without a number nobody could tell later whether the event is still needed.
  if (last_.pending && (queues_ == HardwareQueues::own || last_.numbers == Numbers::none)) record(last_);
}

void LaunchOrder::drop_pending() noexcept {
  last_captured_.pending = false;
  if (queues_ == HardwareQueues::own) last_.pending = false;
}

void LaunchOrder::record(Last& last) {
  last.pending = false;
  const bool is_late = &last == &last_ && queues_ == HardwareQueues::shared && last.numbers == Numbers::numbered;
  const auto has_ended = [&] { return watch_.in_flight().has_ended(sequence_.last_enqueued()); };
  if (is_late && has_ended()) return;
  const gpu::Device& device = resources_.membership().device;
  const gpu::Current current(device);
  const bool is_gone = is_late && (gpu::is_being_captured(*device.driver, last.stream.handle) ||
                                   !is_stream_of(last, last.stream.handle));
  const gpu::Status status =
      is_gone ? gpu::kInvalidHandle : device.driver->event_record(last.event.handle(), last.stream.handle);
  last.recorded = status == 0;
  if (!is_late) device.driver->check(status, "recording an event");
  // The program has destroyed the stream, but the stream's work continues; or it is another thread's default stream; or
  // it is being captured since, and an event there would be one of the graph.
  while (status != 0 && !has_ended()) {
    watch_.check();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

bool LaunchOrder::records_late(gpu::Stream stream, const gpu::CaptureState& capture) {
  const Last& last = last_of(capture);
  return last.pending && capture.id == last.capture && !is_stream_of(last, stream);
}

void LaunchOrder::order_after_last(gpu::Stream stream, const gpu::CaptureState& capture) {
  Last& last = last_of(capture);
  if (records_late(stream, capture)) record(last);
  if (!last.recorded || capture.id != last.capture || is_stream_of(last, stream)) return;
  driver().check(driver().stream_wait_event(stream, last.event.handle(), 0), "ordering two streams");
}

bool LaunchOrder::is_stream_of(const Last& last, gpu::Stream stream) const {
  return gpu::identity_of(driver(), stream) == last.stream;
}

}  // namespace sccl::runtime
