// The kernels of a device, loaded when a communicator is made and unloaded with their last user. No call loads a
// kernel.
//
// Loading waits for all work in the context. A kernel in the context may wait for another rank of this process, whose
// thread is about to make its next call: if that call loaded a kernel, both would wait for ever. So
//   - the kernels without which calls cannot run are loaded before the communicator's init ends, and so before any
//     kernel of the communicator runs: a kernel that copies, a kernel for one-sided calls, and a kernel that reduces
//     every type and operation (kernels/gpu/reduce_any.h). Kernels that no cache and no bundle has are compiled then;
//     compiling touches no context;
//   - kernels of one type and operation, which are faster, are loaded then, too: as many as are found, or compiled
//     within half a second. The kernel for all types serves the missing ones until the communicator's end;
//   - finding a kernel takes no lock that is held while a kernel is loaded: a thread that makes another communicator
//     may wait for the context while calls go on.
// So no call waits for loading, and the making of a communicator waits, at most, for calls that do not need it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "base/error.h"
#include "kernels/instantiate/kernel_store.h"
#include "platform/gpu/device.h"

namespace sccl::runtime {

class DeviceKernels {
 public:
  // The one object for this device in this process.
  static std::shared_ptr<DeviceKernels> of(const gpu::Device& device);

  explicit DeviceKernels(const gpu::Device& device);
  ~DeviceKernels();
  DeviceKernels(const DeviceKernels&) = delete;
  DeviceKernels& operator=(const DeviceKernels&) = delete;

  // The driver's function for the instance, among those that are loaded. Throws if there is none, with the error that
  // prevented loading.
  void* function(const kernels::Instance& instance);

  // Finds or compiles, in parallel, the kernels that calls may need, the most used first; takes a limited time. Any
  // thread may call this at any time.
  void prepare();
  // Loads the kernels. `moves`: also those of calls that streams order. A missing kernel is reported to the call that
  // needs it. To be called, like load(), while a communicator is made, with the device current.
  enum class Moves : std::uint8_t { no, yes };
  void load_all(Moves moves);
  // Loads one kernel, or throws.
  void* load(const kernels::Instance& instance);

 private:
  struct Loaded {
    void* module = nullptr;
    void* function = nullptr;
  };

  void* find(const kernels::Instance& instance);
  void load_needed(Moves moves);
  void load_specialised(Moves moves);
  std::vector<kernels::Instance> specialised(Moves moves);

  gpu::Device device_;
  std::shared_ptr<kernels::KernelStore> store_;
  std::mutex loading_;  // one thread loads at a time
  std::mutex mutex_;    // protects the members below; never held during a call of the driver
  std::map<kernels::Instance, Loaded> loaded_;
  std::set<kernels::Instance> missed_;  // that calls asked for
  std::optional<Error> missing_;        // why some necessary kernel was not loaded
};

}  // namespace sccl::runtime
