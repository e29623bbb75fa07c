// A device that a rank uses, and the scopes in which the driver is talked to: the caller's device and capture mode are
// as before when they end.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "platform/gpu/driver.h"

namespace sccl::gpu {

struct Device {
  const Driver* driver = nullptr;
  int ordinal = 0;
  void* context = nullptr;  // CUDA's; HIP knows devices only
  UniqueDeviceId id{};
  int multiprocessors = 0;
  std::string busid;         // "0000:0a:00.0"; "" where the driver does not tell (some virtual machines)
  std::string architecture;  // "sm_90"; of HIP a name that stands for this device
  bool vmm = false;          // memory can be passed on as file descriptors

  bool pageable = false;  // kernels may use any host memory

  int newest_compiler() const { return driver->vendor == Vendor::cuda ? driver->version / 1000 : 0; }
};

// The device that is current in the calling thread, if the program uses one; in a thread that has chosen none, the one
// that CUDA's runtime would use, if any device is in use. SCCL_PLATFORM: `host` says no; `cuda` and `hip` throw where
// there is none.
std::optional<Device> current_device();

// A device by its number, with the context that CUDA's runtime uses, which is kept from now on: the program's own uses
// of it come and go. Throws invalid_argument for a number there is not.
Device primary_device(const Driver& driver, int ordinal);

// "NVIDIA H200"; "" where the driver does not tell.
std::string name_of(const Device& device);

// Of a process on a CUDA device: streams share them.
int hardware_queues();

// Whether the driver says that `device` can use memory of another one; true where that one is not visible to this
// process, so that the driver cannot be asked.
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

}  // namespace sccl::gpu
