// Work on a stream that is ordered by flags in memory instead of by kernels that look at them: the stream's front end
// waits, and no multiprocessor is busy with it.
#pragma once

#include <vector>

#include "platform/gpu/device.h"

namespace sccl::gpu {

// Whether streams of this device can wait for values; `why_not` tells what is missing.
bool can_order_by_flags(const Device& device, std::string& why_not);

// Whether such waits and writes may be captured into graphs.
bool can_capture_flags(const Driver& driver);

// Whether kernels of several processes on this device run side by side, so that one may wait for another. Without
// CUDA's multi-process service their contexts take turns in time slices, each for as long as it has something to run;
// AMD's queues of several processes run at the same time.
bool runs_beside_other_processes(const Device& device);

// Appends to a stream, in order. Neighbouring waits and writes become one call of the driver.
class StreamOperations {
 public:
  // `stream` is of `driver`'s current device. All must be flushed before it goes.
  StreamOperations(const Driver& driver, Stream stream) : driver_(driver), stream_(stream) {}

  // Until the word holds exactly this value. What its writer had done before is visible to what follows.
  void wait(Address word, std::uint32_t value) { add(FlagOperation::wait32, word, value, kEqual); }
  // Everything before it on the stream is visible to whoever sees the value, on every device and on the host.
  void write(Address word, std::uint32_t value) { add(FlagOperation::write32, word, value, 0); }

  void copy(Address to, Address from, std::size_t bytes);
  void launch(void* function, unsigned blocks, unsigned threads, void* arguments);
  void flush();

 private:
  static constexpr unsigned kEqual = 1;

  void add(FlagOperation::Kind kind, Address word, std::uint32_t value, unsigned flags);

  const Driver& driver_;
  Stream stream_;
  std::vector<FlagOperation> pending_;
};

}  // namespace sccl::gpu
