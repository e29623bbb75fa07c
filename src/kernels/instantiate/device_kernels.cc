#include "kernels/instantiate/device_kernels.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/settings/log.h"

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

// While a communicator is made, optional kernels are compiled for at most this long.
constexpr std::chrono::milliseconds kCompilingAtInit{500};

// With these kernels every call can run.
std::vector<kernels::Instance> needed(DeviceKernels::Moves moves) {
  std::vector<kernels::Instance> all{kernels::kCopy, kernels::kAnyCall, kernels::kOneSided};
  if (moves == DeviceKernels::Moves::yes)
    all.insert(all.end(), {kernels::kMoveCopy, kernels::kAnyMove, kernels::kSignal});
  return all;
}

// Kernels with a lower rank are needed by more programs: sums come first, and sums of common float types before all.
int rank_of_use(const kernels::Instance& instance) {
  const bool common =
      instance.type == DataType::float32 || instance.type == DataType::bfloat16 || instance.type == DataType::float16;
  return (instance.kernel == ReduceKernel::sum ? 0 : 2) + (common ? 0 : 1);
}

// Drivers load a function at its first launch, which waits for all work in the context, unless they are asked to load
// it earlier. Drivers without such a call load the function when an attribute of it is read.
void finish_loading(const gpu::Driver& driver, void* function) {
  constexpr int kMostThreadsOfBlock = 0;
  int ignored = 0;
  if (driver.function_load != nullptr)
    driver.check(driver.function_load(function), "loading a kernel");
  else
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
    // The driver is shutting down with the process.
  }
}

void* DeviceKernels::find(const kernels::Instance& instance) {
  const std::lock_guard lock(mutex_);
  const auto found = loaded_.find(instance);
  return found == loaded_.end() ? nullptr : found->second.function;
}

void* DeviceKernels::function(const kernels::Instance& instance) {
  if (void* const own = find(instance)) return own;
  const bool moves = instance.form == kernels::KernelForm::move;
  void* const for_all = instance.reduces ? find(moves ? kernels::kAnyMove : kernels::kAnyCall) : nullptr;
  const std::lock_guard lock(mutex_);
  if (for_all == nullptr && missing_) throw Error(*missing_);
  if (for_all == nullptr)
    fail(ErrorCode::internal_error, "the kernel {} was not loaded when the communicator was made: report this",
         kernels::name(instance));
  if (missed_.insert(instance).second)
    log::info(log::Subsystem::init,
              "{} was not compiled when the communicator was made: {} serves, which is slower (sccl kernels --out "
              "compiles beforehand)",
              kernels::name(instance), kernels::name(moves ? kernels::kAnyMove : kernels::kAnyCall));
  return for_all;
}

void* DeviceKernels::load(const kernels::Instance& instance) {
  const std::lock_guard loading(loading_);
  if (void* const there = find(instance)) return there;
  const std::string image = store_->image(instance);
  const gpu::Driver& driver = *device_.driver;
  const gpu::RelaxedCapture relaxed(driver);
  Loaded made;
  driver.check(driver.module_load(&made.module, image.data()), "loading a kernel");
  try {
    driver.check(driver.module_function(&made.function, made.module, kernels::name(instance).c_str()),
                 "looking up a kernel");
    finish_loading(driver, made.function);
  } catch (const Error&) {
    driver.module_unload(made.module);
    throw;
  }
  const std::lock_guard lock(mutex_);
  loaded_[instance] = made;
  return made.function;
}

void DeviceKernels::prepare() {
  store_->prepare(needed(Moves::no));
  store_->prepare(specialised(Moves::no), kernels::KernelStore::Clock::now() + kCompilingAtInit);
}

void DeviceKernels::load_all(Moves moves) {
  try {
    load_needed(moves);
    load_specialised(moves);
  } catch (const Error& error) {
    // the first call that needs the kernel fails with the same words
    log::info(log::Subsystem::init, "{}", error.what());
  }
}

void DeviceKernels::load_needed(Moves moves) {
  const std::vector<kernels::Instance> wanted = needed(moves);
  store_->prepare(wanted);
  try {
    for (const kernels::Instance& instance : wanted) load(instance);
  } catch (const Error& error) {
    const std::lock_guard lock(mutex_);
    missing_ = error;
    throw;
  }
  const std::lock_guard lock(mutex_);
  missing_.reset();
}

void DeviceKernels::load_specialised(Moves moves) {
  const std::vector<kernels::Instance> wanted = specialised(moves);
  store_->prepare(wanted, kernels::KernelStore::Clock::now() + kCompilingAtInit);
  std::size_t missing = 0;
  for (const kernels::Instance& instance : wanted)
    store_->has(instance) ? static_cast<void>(load(instance)) : static_cast<void>(++missing);
  if (missing > 0)
    log::info(log::Subsystem::init,
              "{} of {} kernels are not compiled yet: a slower one serves their types and operations until the next "
              "communicator is made (sccl kernels --out makes them beforehand)",
              missing, wanted.size());
}

// Kernels that calls have missed come first.
std::vector<kernels::Instance> DeviceKernels::specialised(Moves moves) {
  std::vector<kernels::Instance> all;
  for (const kernels::Instance& instance : kernels::all_instances()) {
    const bool serves_calls = instance.form == kernels::KernelForm::call;
    const bool serves_moves = instance.form == kernels::KernelForm::move && moves == Moves::yes;
    if (instance.reduces && (serves_calls || serves_moves)) all.push_back(instance);
  }
  std::set<kernels::Instance> missed;
  {
    const std::lock_guard lock(mutex_);
    missed = missed_;
  }
  const auto rank = [&](const kernels::Instance& instance) {
    return missed.count(instance) != 0 ? -1 : rank_of_use(instance);
  };
  std::stable_sort(all.begin(), all.end(), [&](const kernels::Instance& one, const kernels::Instance& other) {
    return rank(one) < rank(other);
  });
  return all;
}

}  // namespace sccl::runtime
