// PutSignal, Signal and WaitSignal ordered by a stream. A put is a copy, a signal is a short kernel, and a wait is two
// waits of the stream at a gate that signals open (kernels/gpu/signal_kernel.h). Signals are counted as in
// kernel/one_sided_kernels.h, so that a rank whose driver cannot capture waits of streams may use those kernels in
// captured calls.
#pragma once

#include <span>
#include <vector>

#include "runtime/call/window.h"
#include "runtime/gpu/resources/device_resources.h"
#include "runtime/transport/stream/stream_path.h"

namespace sccl::runtime {

class StreamSignals {
 public:
  // `resources` has a stream path and must outlive this object.
  explicit StreamSignals(DeviceResources& resources) : resources_(resources), path_(*resources.membership().streams) {}

  // Whether a stream executes a wait. Puts and signals wait for nothing: streams execute them whenever streams order
  // all calls.
  bool serve_wait(bool captured) const { return serve() && (path_.capturable || !captured); }
  bool serve() const { return path_.all_calls; }

  // `sequence` is 0 for captured calls.
  void put(const PutRequest& request, gpu::Stream stream, device::u64 sequence);
  // At most one wait for each signal.
  void wait(std::span<const SignalWait> waits, gpu::Stream stream, device::u64 sequence);

 private:
  using Arguments = device::gpu::SignalArguments;
  class Pass;

  Arguments arguments(device::gpu::SignalStep step) const;
  device::gpu::GateSignal outgoing(const SignalAddress& to) const;
  device::gpu::GateSignal incoming(const SignalWait& wait) const;

  DeviceResources& resources_;
  StreamPath& path_;
};

}  // namespace sccl::runtime
