// PutSignal, Signal and WaitSignal on a device: one short kernel each, in the stream's order like any other call.
#pragma once

#include <span>
#include <vector>

#include "kernels/gpu/arguments.h"
#include "runtime/call/window.h"
#include "runtime/gpu/launch/kernel_sequence.h"
#include "runtime/gpu/launch/prepared_calls.h"
#include "runtime/gpu/resources/device_resources.h"
#include "runtime/membership/membership.h"

namespace sccl::runtime {

// Merges waits for the same signal into one wait.
std::vector<SignalWait> merge_waits(std::span<const SignalWait> waits);

class OneSidedKernels {
 public:
  // All must outlive this object.
  OneSidedKernels(const Membership& membership, DeviceResources& resources, CallsInFlight& in_flight,
                  KernelSequence& sequence, PreparedCalls& prepared);

  void prepare(const PutRequest& request, gpu::Stream stream);
  // `waits` are merged. If there are more waits than one launch holds, several launches follow one another; the order
  // of the waits does not matter.
  void prepare(std::span<const SignalWait> waits, gpu::Stream stream);

 private:
  void prepare(const device::gpu::OneSidedArguments& arguments, gpu::Stream stream);

  const Membership& membership_;
  DeviceResources& resources_;
  CallsInFlight& in_flight_;
  KernelSequence& sequence_;
  PreparedCalls& prepared_;
};

}  // namespace sccl::runtime
