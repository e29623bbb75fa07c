#include "runtime/gpu/launch/side_stream.h"

#include <utility>

#include "base/error.h"

namespace sccl::runtime {
namespace {

constexpr unsigned kNonBlockingStream = 1;

}  // namespace

SideStream::SideStream(const gpu::Device& device) : device_(device), event_(device) {
  const gpu::Current current(device_);
  const gpu::RelaxedCapture relaxed(*device_.driver);
  device_.driver->check(device_.driver->stream_create(&stream_, kNonBlockingStream), "making a stream");
}

SideStream::~SideStream() {
  try {
    const gpu::Current current(device_);
    device_.driver->stream_destroy(stream_);
  } catch (const Error&) {
    // The driver is shutting down with the process.
  }
}

void SideStream::fork(StreamHandle from) {
  forked_from_ = static_cast<gpu::Stream>(from);
  order(forked_from_, stream_);
  forked_ = true;
}

void SideStream::join() {
  if (std::exchange(forked_, false)) order(stream_, forked_from_);
}

void SideStream::order(gpu::Stream first, gpu::Stream second) {
  const gpu::Current current(device_);
  const gpu::Driver& driver = *device_.driver;
  driver.check(driver.event_record(event_.handle(), first), "recording an event");
  driver.check(driver.stream_wait_event(second, event_.handle(), 0), "ordering two streams");
}

}  // namespace sccl::runtime
