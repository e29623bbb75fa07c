#include "platform/gpu/foreign_stream.h"

#include <dlfcn.h>

#include <initializer_list>
#include <string>

#include "base/error.h"
#include "platform/gpu/device.h"

namespace sccl::gpu {
namespace {

const Driver* driver_that_can_tell(std::string& why_not) {
  for (const Vendor vendor : {Vendor::cuda, Vendor::hip})
    if (const Driver* const driver = find_driver(vendor, why_not); driver != nullptr && driver->stream_query != nullptr)
      return driver;
  return nullptr;
}

// A function of a runtime that the program has loaded for all its libraries; null if there is none.
template <typename Function>
Function of_runtime(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (void* const found = ::dlsym(RTLD_DEFAULT, name)) return reinterpret_cast<Function>(found);
  return nullptr;
}

bool is_captured_by_runtime(Stream stream) {
  using IsCapturing = Status (*)(Stream, int*);
  const auto is_capturing = of_runtime<IsCapturing>({"cudaStreamIsCapturing", "hipStreamIsCapturing"});
  int capture = 0;
  return is_capturing != nullptr && is_capturing(stream, &capture) == 0 && capture != 0;
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

ForeignStream::ForeignStream(void* handle) : stream_(handle) {
  std::string why_not;
  driver_ = driver_that_can_tell(why_not);
  if (driver_ == nullptr) runtime_query_ = of_runtime<Query>({"cudaStreamQuery", "hipStreamQuery"});
  if (driver_ == nullptr && runtime_query_ == nullptr)
    sccl::fail(ErrorCode::invalid_argument,
               "stream {} is of a runtime without a driver that works here{}{}: pass NULL, since a call on the host "
               "platform is complete when it returns, or link the runtime as a shared library, so that its "
               "cudaStreamQuery can be asked",
               handle, why_not.empty() ? "" : ": ", why_not);
  if (driver_ != nullptr && driver_->vendor == Vendor::cuda) {
    driver_->check(driver_->context_current(&context_), "asking for the current context");
    if (context_ == nullptr) context_ = primary_device(*driver_, 0).context;  // as CUDA's runtime does
  }
  if (is_captured())
    sccl::fail(ErrorCode::invalid_usage,
               "stream {} is being captured, and calls on the host platform cannot be: make the call outside of the "
               "capture, or use buffers in device memory without SCCL_PLATFORM=host",
               handle);
  has_ended();  // a handle that is not known is told now
}

bool ForeignStream::is_captured() const {
  if (driver_ == nullptr) return is_captured_by_runtime(stream_);
  const ContextOf context(*driver_, context_);
  return capture_of(*driver_, stream_).id != 0;
}

bool ForeignStream::has_ended() const {
  // To ask such a stream would end its capture.
  if (is_captured())
    sccl::fail(ErrorCode::invalid_usage,
               "the capture of stream {} began while a call on it was waiting for the work before: begin it when the "
               "call has ended",
               stream_);
  if (driver_ == nullptr) {
    const Status status = runtime_query_(stream_);
    if (status != 0 && status != kNotReady)
      sccl::fail(ErrorCode::device_error, "asking the runtime whether the work on stream {} has ended: error {}",
                 stream_, status);
    return status == 0;
  }
  const ContextOf context(*driver_, context_);
  const RelaxedCapture relaxed(*driver_);
  const Status status = driver_->stream_query(stream_);
  if (status == kNotReady) return false;
  driver_->check(status, "asking whether the work on a stream has ended");
  return true;
}

}  // namespace sccl::gpu
