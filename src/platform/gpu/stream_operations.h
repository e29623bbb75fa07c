// Work on a stream that is ordered by flags in memory: the front end of the stream waits for a flag, so no kernel spins
// and no multiprocessor is busy.
#pragma once

#include <vector>

#include "platform/gpu/device.h"

namespace sccl::gpu {

// Whether streams of this device can wait for values; `why_not` says what is missing.
bool can_order_by_flags(const Device& device, std::string& why_not);

// Whether such waits and writes may be captured into graphs.
bool can_capture_flags(const Driver& driver);

// Whether kernels of several processes run on this device at the same time, so that one may wait for another. Without
// CUDA's multi-process service the contexts take turns in time slices, each for as long as it has work. AMD's queues of
// several processes run at the same time.
bool runs_beside_other_processes(const Device& device);

// Appends operations to a stream, in order. Consecutive waits and writes become one call of the driver.
class StreamOperations {
 public:
  // `stream` belongs to the current device of `driver`. Call flush() before destruction.
  StreamOperations(const Driver& driver, Stream stream) : driver_(driver), stream_(stream) {}

  // Waits until the word equals the value. Later operations see everything that the writer did before it wrote the
  // value.
  void wait(Address word, std::uint32_t value) { add(FlagOperation::wait32, word, value, kEqual); }
  // A reader of the value, on any device or on the host, sees everything that precedes this write on the stream.
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
