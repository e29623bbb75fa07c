// An event of the driver, without timing.
#pragma once

#include "base/error.h"
#include "platform/gpu/device.h"

namespace sccl::runtime {

class DeviceEvent {
 public:
  // `device` must outlive the event. Legal while a stream is being captured.
  explicit DeviceEvent(const gpu::Device& device) : device_(device) {
    const gpu::Current current(device_);
    const gpu::RelaxedCapture relaxed(*device_.driver);
    device_.driver->check(device_.driver->event_create(&handle_, kWithoutTiming), "making an event");
  }
  ~DeviceEvent() {
    try {
      const gpu::Current current(device_);
      device_.driver->event_destroy(handle_);
    } catch (const Error&) {
      // The driver is shutting down with the process.
    }
  }
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;

  void* handle() const { return handle_; }

 private:
  static constexpr unsigned kWithoutTiming = 2;

  const gpu::Device& device_;
  void* handle_ = nullptr;
};

}  // namespace sccl::runtime
