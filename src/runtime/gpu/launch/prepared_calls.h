// Calls that are prepared and not launched yet, in their order.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/gpu/arguments.h"
#include "platform/gpu/device.h"
#include "runtime/gpu/choice/device_tuner.h"

namespace sccl::runtime {

struct PreparedCall {
  struct KernelShape {
    void* function = nullptr;
    device::u32 blocks = 0;
    device::u32 threads = 0;
    device::u64 shared_bytes = 0;
  };
  // A program's way to the device, in front of the first kernel that uses it.
  struct Upload {
    gpu::Address to = 0;
    const std::byte* from = nullptr;  // mapped memory
    std::size_t bytes = 0;
  };

  gpu::Stream stream = nullptr;
  gpu::CaptureState capture;  // the stream's
  bool collective = false;
  // Of a call that its stream orders, the rest is unused: enqueues it, given its sequence number, 0 inside a capture.
  std::function<void(device::u64)> in_stream;

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
  // `driver` must outlive it.
  explicit PreparedCalls(const gpu::Driver& driver) : driver_(driver) {}

  // The next one for this stream, with `call` left as it was. Stays where it is until it has been launched.
  PreparedCall& add(gpu::Stream stream);
  // The first that has not been taken; null: there is none. take() takes it.
  const PreparedCall* first() const { return taken_ == count_ ? nullptr : calls_[taken_].get(); }
  PreparedCall* take();
  // The one that was added last.
  PreparedCall& last() { return *calls_[count_ - 1]; }
  void drop() noexcept { taken_ = count_ = 0; }

 private:
  const gpu::Driver& driver_;
  std::vector<std::unique_ptr<PreparedCall>> calls_;  // all that were ever needed at a time
  std::size_t count_ = 0;
  std::size_t taken_ = 0;
};

}  // namespace sccl::runtime
