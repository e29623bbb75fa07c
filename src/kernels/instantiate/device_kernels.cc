#include "kernels/instantiate/device_kernels.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"

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

// What only calls need that streams order.
bool is_move(const kernels::Instance& instance) {
  return instance.form == kernels::KernelForm::move || instance.form == kernels::KernelForm::signal;
}

// Compiling goes on so long while a communicator is made: less than a second for the first kernels.
constexpr std::chrono::milliseconds kCompilingAtInit{500};

// Of two kernels the earlier one is needed by more programs: copies, then sums, of short floats before all else.
std::vector<kernels::Instance> in_order_of_use(DeviceKernels::Moves moves) {
  std::vector<kernels::Instance> all;
  for (const kernels::Instance& instance : kernels::all_instances())
    if (moves == DeviceKernels::Moves::yes || !is_move(instance)) all.push_back(instance);
  const auto rank = [](const kernels::Instance& instance) {
    if (!instance.reduces) return 0;
    const bool common =
        instance.type == DataType::float32 || instance.type == DataType::bfloat16 || instance.type == DataType::float16;
    return 1 + (instance.kernel == ReduceKernel::sum ? 0 : 2) + (common ? 0 : 1);
  };
  std::stable_sort(all.begin(), all.end(), [&](const kernels::Instance& one, const kernels::Instance& other) {
    return rank(one) < rank(other);
  });
  return all;
}

// Drivers load a function when it is first launched, which waits for all that runs in the context, unless they are
// asked to do it earlier; asking for an attribute does so where there is no call for it.
void finish_loading(const gpu::Driver& driver, void* function) {
  constexpr int kMostThreadsOfBlock = 0;
  int ignored = 0;
  if (driver.function_load != nullptr)
    driver.check(driver.function_load(function), "loading a kernel");
  else if (driver.function_attribute != nullptr)
    driver.check(driver.function_attribute(&ignored, kMostThreadsOfBlock, function), "loading a kernel");
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
  void* found = nullptr;
  driver.check(driver.module_function(&found, entry.module, kernels::name(instance).c_str()), "looking up a kernel");
  finish_loading(driver, found);
  return entry.function = found;
}

void DeviceKernels::prepare() {
  store_->prepare(in_order_of_use(Moves::no), kernels::KernelStore::Clock::now() + kCompilingAtInit);
}

void DeviceKernels::load_all(Moves moves) {
  const std::vector<kernels::Instance> wanted = in_order_of_use(moves);
  store_->prepare(wanted, kernels::KernelStore::Clock::now() + kCompilingAtInit);
  std::size_t missing = 0;
  for (const kernels::Instance& instance : wanted) {
    try {
      store_->has(instance) ? static_cast<void>(function(instance)) : static_cast<void>(++missing);
    } catch (const Error& error) {
      log::info(log::Subsystem::init, "{}", error.what());
      return;  // as a rule the driver does not take what was compiled, and the first call says so
    }
  }
  if (missing > 0)
    log::info(log::Subsystem::init,
              "{} of {} kernels are not compiled yet, which the first calls that need them do, and may wait for the "
              "device then (sccl kernels --out makes them beforehand)",
              missing, wanted.size());
}

}  // namespace sccl::runtime
