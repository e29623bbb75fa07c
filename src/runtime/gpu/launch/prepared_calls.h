// Calls that are prepared but not launched yet, in order.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/gpu/arguments.h"
#include "platform/gpu/device.h"
#include "runtime/gpu/choice/device_tuner.h"
#include "runtime/vendor/vendor_group.h"

namespace sccl::runtime {

struct PreparedCall {
  struct KernelShape {
    void* function = nullptr;
    device::u32 blocks = 0;
    device::u32 threads = 0;
    device::u64 shared_bytes = 0;
  };
  // The upload of a program to the device, before the first kernel that uses the program.
  struct Upload {
    gpu::Address to = 0;
    const std::byte* from = nullptr;  // mapped memory
    std::size_t bytes = 0;
  };

  gpu::Stream stream = nullptr;
  gpu::CaptureState capture;  // of the stream
  bool collective = false;
  // Set for a call that its stream orders; then the members below are unused. Enqueues the call, given its sequence
  // number (0 inside a capture).
  std::function<void(device::u64)> in_stream;

  // Set for a call of the vendor's library, in the same way: gives the call to the library, whose kernels have no
  // number here.
  std::function<void(VendorGroup&)> by_vendor;

  device::u64 sequence = 0;  // 0: captured
  KernelShape kernel;
  Upload upload;
  void* launched = nullptr;             // an event of the program, recorded when the kernel has begun
  DeviceTuner::Clock* clock = nullptr;  // null: the call is not timed
  device::gpu::CallArguments call;
  std::unique_ptr<device::gpu::OneSidedArguments> one_sided;  // instead of `call`
};

class PreparedCalls {
 public:
  // `driver` must outlive this object.
  explicit PreparedCalls(const gpu::Driver& driver) : driver_(driver) {}

  // Adds a call for this stream; its member `call` has its old content. The reference is valid until the launch.
  PreparedCall& add(gpu::Stream stream);
  // The first call that has not been taken; null if there is none. take() also takes this call.
  PreparedCall* take();
  // The one that take() takes next; null if there is none.
  const PreparedCall* next() const { return taken_ < count_ ? calls_[taken_].get() : nullptr; }
  // The one that was added last.
  PreparedCall& last() { return *calls_[count_ - 1]; }
  void drop() noexcept { taken_ = count_ = 0; }

 private:
  const gpu::Driver& driver_;
  std::vector<std::unique_ptr<PreparedCall>> calls_;  // reused; as many as were ever prepared at a time
  std::size_t count_ = 0;
  std::size_t taken_ = 0;
};

}  // namespace sccl::runtime
