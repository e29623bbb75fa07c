#include "kernels/instantiate/device_kernels.h"

#include <array>
#include <string>
#include <utility>

#include "base/error.h"

namespace sccl::runtime {
namespace {

// Never destroyed: communicators may outlive static destruction.
template <typename Key, typename T>
struct Shared {
  std::mutex mutex;
  std::map<Key, std::weak_ptr<T>> entries;

  template <typename Make>
  std::shared_ptr<T> get(const Key& key, Make&& make) {
    const std::lock_guard lock(mutex);
    std::shared_ptr<T> found = entries[key].lock();
    if (!found) entries[key] = found = make();
    return found;
  }
};

std::shared_ptr<kernels::KernelStore> store_of(const gpu::Device& device) {
  static auto* const stores = new Shared<std::pair<gpu::Vendor, std::string>, kernels::KernelStore>;
  return stores->get({device.driver->vendor, device.architecture}, [&] {
    return std::make_shared<kernels::KernelStore>(
        kernels::KernelStore::for_device(device.driver->vendor, device.architecture, device.newest_compiler()));
  });
}

}  // namespace

std::shared_ptr<DeviceKernels> DeviceKernels::of(const gpu::Device& device) {
  static auto* const all = new Shared<std::pair<void*, int>, DeviceKernels>;
  return all->get({device.context, device.ordinal}, [&] { return std::make_shared<DeviceKernels>(device); });
}

DeviceKernels::DeviceKernels(const gpu::Device& device) : device_(device), store_(store_of(device)) {}

DeviceKernels::~DeviceKernels() {
  try {
    const gpu::Current current(device_);
    const gpu::RelaxedCapture relaxed(*device_.driver);
    for (const auto& [instance, loaded] : loaded_)
      if (loaded.module != nullptr) device_.driver->module_unload(loaded.module);
  } catch (const Error&) {
    // The driver is going down with the process.
  }
}

void* DeviceKernels::function(const kernels::Instance& instance) {
  const std::lock_guard lock(mutex_);
  Loaded& entry = loaded_[instance];
  if (entry.function != nullptr) return entry.function;
  const std::string image = store_->image(instance);
  const gpu::Driver& driver = *device_.driver;
  const gpu::RelaxedCapture relaxed(driver);
  if (entry.module == nullptr) driver.check(driver.module_load(&entry.module, image.data()), "loading a kernel");
  driver.check(driver.module_function(&entry.function, entry.module, kernels::name(instance).c_str()),
               "looking up a kernel");
  return entry.function;
}

void DeviceKernels::prepare(kernels::KernelForm form) {
  const std::array<kernels::Instance, 3> first{{{false, DataType::int8, ReduceKernel::sum, form},
                                                {true, DataType::float32, ReduceKernel::sum, form},
                                                {true, DataType::bfloat16, ReduceKernel::sum, form}}};
  store_->prepare(first);
}

}  // namespace sccl::runtime
