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

  // Compiles what most programs begin with, unless it is on disk.
  void prepare(kernels::KernelForm form = kernels::KernelForm::call);

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
