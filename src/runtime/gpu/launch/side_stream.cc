#include "runtime/gpu/launch/side_stream.h"

#include <algorithm>
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
  enter({stream_, static_cast<gpu::Stream>(from)});
  forked_ = true;
}

void SideStream::gather(std::span<const StreamHandle> streams) {
  const gpu::Stream runs = stream_for(streams.front());
  for (const StreamHandle handle : streams) enter({runs, static_cast<gpu::Stream>(handle)});
  gathered_ = runs;
}

gpu::Stream SideStream::stream_for(StreamHandle handle) {
  const auto stream = static_cast<gpu::Stream>(handle);
  if (gathered_) return *gathered_;
  if (!forked_) return stream;
  enter({stream_, stream});
  return stream_;
}

void SideStream::enter(const Joined& joined) {
  if (joined.waits == joined.runs || std::find(joined_.begin(), joined_.end(), joined) != joined_.end()) return;
  order(joined.waits, joined.runs);
  joined_.push_back(joined);
}

void SideStream::join() {
  forked_ = false;
  gathered_.reset();
  for (const Joined& joined : std::exchange(joined_, {})) order(joined.runs, joined.waits);
}

void SideStream::order(gpu::Stream first, gpu::Stream second) {
  const gpu::Current current(device_);
  const gpu::Driver& driver = *device_.driver;
  driver.check(driver.event_record(event_.handle(), first), "recording an event");
  driver.check(driver.stream_wait_event(second, event_.handle(), 0), "ordering two streams");
}

}  // namespace sccl::runtime
