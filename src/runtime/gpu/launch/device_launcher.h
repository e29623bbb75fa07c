// Puts prepared calls on their streams: each call behind the previous one, announced under its number, and only while
// nothing is freed on the device.
#pragma once

#include <atomic>

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
  // All must outlive this object.
  DeviceLauncher(Membership& membership, const HeldResources& resources, DeviceWatch& watch,
                 const BufferWithdrawal& withdrawal, DeviceTuner& tuner);

  // Records the event that the call will wait for, if that is not recorded yet. A group does this for all its
  // communicators before it launches: behind a kernel of another communicator the event would come after that kernel,
  // and would hold up, in a hardware queue, what that kernel waits for.
  void order_ahead(const PreparedCall& call);
  // Waits for nothing on the device. Throws the driver's error, or an error if a peer has withdrawn its buffers; then
  // the call was not launched, and its number is taken back. The device must be current. `group`: runs before
  // finish().
  void launch(PreparedCall& call, VendorGroup& group);
  // Enqueues the event that other streams wait for. Call it when the kernels that the last call waits for have been
  // launched, too: in a hardware queue the event may hold up everything behind it (LaunchOrder::finish_launch).
  void finish();
  // The calls that were launched last are given up: finish() has nothing to do for them.
  void drop() noexcept;

  // Whether the last call is one of the vendor's library and still runs. For any thread.
  bool vendor_runs() const;

  KernelSequence& sequence() { return sequence_; }
  LaunchOrder& order() { return order_; }
  LaunchPace& pace() { return pace_; }
  HardwareQueues queues() const { return pace_.shares_queues() ? HardwareQueues::shared : HardwareQueues::own; }
  // Whether some graph holds kernels of this communicator and may be replayed at any time.
  bool was_captured() const { return graphs_.holds(); }

 private:
  void launch_by_vendor(PreparedCall& call, VendorGroup& group);
  void launch_kernel(PreparedCall& call);
  void launch_in_stream(PreparedCall& call);
  gpu::Status enqueue(PreparedCall& call);

  const gpu::Device& device_;
  const gpu::Driver& driver_;
  DeviceGate& gate_;
  DeviceWatch& watch_;
  DeviceTuner& tuner_;
  KernelSequence sequence_;
  LaunchPace pace_;
  LaunchOrder order_;
  GraphHold graphs_;
  std::atomic<bool> by_vendor_{false};  // the event of order_ stands behind a call of the vendor's; pairs with finish()
  PreparedCall* with_vendor_ = nullptr;       // the last call, until finish(): its kernels come when the group runs
  const std::shared_ptr<DeviceProxy> proxy_;  // null if all ranks are on one host
};

}  // namespace sccl::runtime
