// The kernels of a device, loaded when a communicator is made and unloaded with their last user. No call loads one.
//
// Loading waits for all that runs in the context. A kernel there may wait for a rank of this process, on whatever
// thread, whose next call is about to be made: if that call loaded something, both would wait for ever. So
//   - what every call can do with is loaded before the communicator's init ends, and so before any kernel of it runs: a
//     kernel that copies, one for one-sided calls, and one that reduces every type and operation
//     (kernels/gpu/reduce_any.h). Where no cache and no bundle has them they are compiled then, which touches no
//     context;
//   - kernels of one type and operation, which are faster, are loaded then, too, as many as are found or compiled in
//   half
//     a second. What is still missing is served by the kernel for all, in this communicator until its end;
//   - looking a kernel up takes no lock that is held while one is loaded: a thread that makes another communicator may
//     wait for the context while calls go on.
// So a call waits for no loading, and a communicator that is being made waits, at most, for calls that do not need it.
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
  // The one of this device in this process.
  static std::shared_ptr<DeviceKernels> of(const gpu::Device& device);

  explicit DeviceKernels(const gpu::Device& device);
  ~DeviceKernels();
  DeviceKernels(const DeviceKernels&) = delete;
  DeviceKernels& operator=(const DeviceKernels&) = delete;

  // A driver's function that serves the instance, of those that are loaded. Throws where there is none, with what kept
  // it from being loaded.
  void* function(const kernels::Instance& instance);

  // Compiles, or finds, the kernels that calls may need, in parallel, those that most programs use first; not for long.
  // For any thread, beside everything else.
  void prepare();
  // Loads them. `moves`: those of calls that streams order, too. What cannot be had is told to the call that needs it.
  // For the time when a communicator is made, as load(); the device must be current.
  enum class Moves : std::uint8_t { no, yes };
  void load_all(Moves moves);
  // Loads one, or throws.
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
  std::mutex mutex_;    // of what follows; never held while the driver is asked for anything
  std::map<kernels::Instance, Loaded> loaded_;
  std::set<kernels::Instance> missed_;  // that calls would have liked
  std::optional<Error> missing_;        // why some of those that calls need are not there
};

}  // namespace sccl::runtime
