// The kernels of a device, loaded when they are first needed and unloaded with their last user.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "kernels/instantiate/kernel_store.h"
#include "platform/gpu/device.h"

namespace sccl::runtime {

class DeviceKernels {
 public:
  // The one of this device in this process.
  static std::shared_ptr<DeviceKernels> of(const gpu::Device& device);

  explicit DeviceKernels(const gpu::Device& device);
  ~DeviceKernels();
  DeviceKernels(const DeviceKernels&) = delete;
  DeviceKernels& operator=(const DeviceKernels&) = delete;

  // A driver's function. The device must be current. Throws where the kernel cannot be had.
  void* function(const kernels::Instance& instance);

  // Compiles, or finds, the kernels that calls may need, in parallel, those that most programs use first; not for long.
  // For any thread, beside everything else.
  void prepare();
  // Loads them, so that no call has to, which might wait for kernels that wait for this rank. The device must be
  // current. What cannot be had is told to the call that needs it. `moves`: those of calls that streams order, too.
  enum class Moves : std::uint8_t { no, yes };
  void load_all(Moves moves);

 private:
  struct Loaded {
    void* module = nullptr;
    void* function = nullptr;
  };

  gpu::Device device_;
  std::shared_ptr<kernels::KernelStore> store_;
  std::mutex mutex_;
  std::map<kernels::Instance, Loaded> loaded_;
};

}  // namespace sccl::runtime
