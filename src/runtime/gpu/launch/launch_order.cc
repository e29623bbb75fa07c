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
  last.stream = stream;
  last.stream_id = id_of(stream);
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
  if (is_late && resources_.has_finished(sequence_.last_enqueued())) return;
  const gpu::Device& device = resources_.membership().device;
  const gpu::Current current(device);
  const bool is_gone = is_late && !is_stream_of(last, last.stream);
  const gpu::Status status =
      is_gone ? gpu::kInvalidHandle : device.driver->event_record(last.event.handle(), last.stream);
  last.recorded = status == 0;
  if (!is_late) device.driver->check(status, "recording an event");
  // The program has destroyed the stream, but the stream's work continues.
  while (status != 0 && !resources_.has_finished(sequence_.last_enqueued())) {
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
  const gpu::Driver& driver = *resources_.membership().device.driver;
  driver.check(driver.stream_wait_event(stream, last.event.handle(), 0), "ordering two streams");
}

bool LaunchOrder::is_stream_of(const Last& last, gpu::Stream stream) const {
  return stream == last.stream && id_of(stream) == last.stream_id;
}

unsigned long long LaunchOrder::id_of(gpu::Stream stream) const {
  const gpu::Driver& driver = *resources_.membership().device.driver;
  unsigned long long id = 0;
  return driver.stream_id != nullptr && driver.stream_id(stream, &id) == 0 ? id : 0;
}

}  // namespace sccl::runtime
