// A device that a rank uses, and scopes for calls of the driver: at the end of a scope the caller's device and capture
// mode are as before.
#pragma once

#include <compare>
#include <memory>
#include <optional>
#include <string>

#include "platform/gpu/driver.h"

namespace sccl::gpu {

struct Device {
  const Driver* driver = nullptr;
  int ordinal = 0;
  void* context = nullptr;  // CUDA's context; null for HIP, which has devices only
  UniqueDeviceId id{};
  int multiprocessors = 0;
  std::string busid;         // "0000:0a:00.0"; "" where the driver does not report it (some virtual machines)
  std::string architecture;  // "sm_90"; for HIP a name that stands for this device
  bool vmm = false;          // memory can be exported as file descriptors

  bool pageable = false;  // kernels may use any host memory

  int newest_compiler() const { return driver->vendor == Vendor::cuda ? driver->version / 1000 : 0; }
};

// The current device of the calling thread, if the program uses one. In a thread that has chosen none: the device that
// CUDA's runtime would use, if any device is in use. SCCL_PLATFORM=host: none; `cuda` and `hip` throw if there is none.
// The device's primary context is retained as by primary_device(), if the program uses it.
std::optional<Device> current_device();

// The device with this number, with the context that CUDA's runtime uses. The context is retained for the life of the
// process, because the program may release its own use of it. Throws invalid_argument if no device has this number.
Device primary_device(const Driver& driver, int ordinal);

// "NVIDIA H200"; "" where the driver does not report it.
std::string name_of(const Device& device);

// The number of hardware queues of a process on a CUDA device; streams share them.
int hardware_queues();

// Whether `device` can use memory of the other device, according to the driver. True if the other device is not visible
// to this process, so that the driver cannot be asked.
bool may_reach(const Device& device, const UniqueDeviceId& other);

// Makes a device current.
class Current {
 public:
  explicit Current(const Device& device);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const Driver& driver_;
  void* context_before_ = nullptr;
  int device_before_ = 0;
  bool changed_ = false;
};

// While it lives, this thread may allocate and synchronize although some stream is being captured.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver);
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const Driver& driver_;
  int mode_ = 2;
};

// Zero when the stream is not being captured. Throws device_error for a capture that has been invalidated, and
// invalid_usage for the default stream while a capture forbids its use.
struct CaptureState {
  unsigned long long id = 0;
  void* graph = nullptr;
};
CaptureState capture_of(const Driver& driver, Stream stream);
// The same as a plain question, of any handle: of one that is none, false.
bool is_being_captured(const Driver& driver, Stream stream);

// Tells streams of a context apart. A handle alone does not: a destroyed stream's handle is given to a new stream,
// while the destroyed one's work goes on, and the per-thread default streams of all threads have one handle.
struct StreamIdentity {
  Stream handle = nullptr;
  // A captured stream, one of which the driver does not tell whether it is captured, or a driver that tells no ids: 0,
  // or the thread's number for its per-thread stream.
  unsigned long long id = 0;

  auto operator<=>(const StreamIdentity&) const = default;
};
// Of the current device.
StreamIdentity identity_of(const Driver& driver, Stream stream);

}  // namespace sccl::gpu
