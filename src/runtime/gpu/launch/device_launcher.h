// Puts prepared calls on their streams: each behind the one before, announced under its number, and while nothing is
// freed on the device.
#pragma once

#include "platform/gpu/device.h"
#include "runtime/gpu/choice/device_tuner.h"
#include "runtime/gpu/launch/graph_hold.h"
#include "runtime/gpu/launch/kernel_sequence.h"
#include "runtime/gpu/launch/launch_order.h"
#include "runtime/gpu/launch/launch_pace.h"
#include "runtime/gpu/launch/prepared_calls.h"
#include "runtime/gpu/resources/device_gate.h"
#include "runtime/gpu/resources/device_resources.h"
#include "runtime/gpu/watch/buffer_withdrawal.h"
#include "runtime/gpu/watch/device_watch.h"

namespace sccl::runtime {

class DeviceLauncher {
 public:
  // All must outlive it.
  DeviceLauncher(Membership& membership, const HeldResources& resources, DeviceWatch& watch,
                 const BufferWithdrawal& withdrawal, DeviceTuner& tuner);

  // Waits for nothing on the device. Throws what the driver says, or that a peer has withdrawn its buffers; then the
  // call was not launched, and its number is taken back. The device is current.
  void launch(PreparedCall& call);

  KernelSequence& sequence() { return sequence_; }
  LaunchOrder& order() { return order_; }
  LaunchPace& pace() { return pace_; }
  // A graph that holds kernels of this communicator may be replayed at any time.
  bool was_captured() const { return graphs_.holds(); }

 private:
  void launch_kernel(PreparedCall& call);
  void launch_in_stream(PreparedCall& call);
  gpu::Status enqueue(PreparedCall& call);

  const gpu::Driver& driver_;
  DeviceGate& gate_;
  DeviceWatch& watch_;
  DeviceTuner& tuner_;
  KernelSequence sequence_;
  LaunchPace pace_;
  LaunchOrder order_;
  GraphHold graphs_;
};

}  // namespace sccl::runtime
