#include "platform/gpu/foreign_stream.h"

#include <string>

#include "base/error.h"
#include "platform/gpu/device.h"

namespace sccl::gpu {
namespace {

const Driver& driver_that_can_tell(const void* handle) {
  std::string why_not;
  for (const Vendor vendor : {Vendor::cuda, Vendor::hip})
    if (const Driver* const driver = find_driver(vendor, why_not); driver != nullptr && driver->stream_query != nullptr)
      return *driver;
  sccl::fail(
      ErrorCode::invalid_argument,
      "stream {} is of a runtime without a driver that works here{}{}: pass NULL, since a call on the host platform "
      "is complete when it returns",
      handle, why_not.empty() ? "" : ": ", why_not);
}

// Where a thread has no context, as one that the library started, the driver is given the program's.
class ContextOf {
 public:
  ContextOf(const Driver& driver, void* context) : driver_(driver) {
    if (context == nullptr) return;
    void* now = nullptr;
    driver.check(driver.context_current(&now), "asking for the current context");
    if (now != nullptr) return;
    driver.check(driver.context_set(context), "making a context current");
    changed_ = true;
  }
  ~ContextOf() {
    if (changed_) driver_.context_set(nullptr);
  }
  ContextOf(const ContextOf&) = delete;
  ContextOf& operator=(const ContextOf&) = delete;

 private:
  const Driver& driver_;
  bool changed_ = false;
};

}  // namespace

ForeignStream::ForeignStream(void* handle) : driver_(&driver_that_can_tell(handle)), stream_(handle) {
  if (driver_->vendor == Vendor::cuda)
    driver_->check(driver_->context_current(&context_), "asking for the current context");
  if (capture_of(*driver_, stream_).id != 0)
    sccl::fail(ErrorCode::invalid_usage,
               "stream {} is being captured, and calls on the host platform cannot be: make the call outside of the "
               "capture, or use buffers in device memory without SCCL_PLATFORM=host",
               handle);
  has_ended();  // a handle that the driver does not know is told now
}

bool ForeignStream::has_ended() const {
  const ContextOf context(*driver_, context_);
  const RelaxedCapture relaxed(*driver_);
  const Status status = driver_->stream_query(stream_);
  if (status == kNotReady) return false;
  driver_->check(status, "asking whether the work on a stream has ended");
  return true;
}

}  // namespace sccl::gpu
