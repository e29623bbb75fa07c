// Calls of one communicator run one after another, also on several streams; captured calls likewise. Captured calls and
// other calls cannot be ordered here: a program that replays graphs beside other calls must order its streams itself,
// and kernels detect if it does not (kernels/gpu/ticket.h).
#pragma once

#include <cstdint>

#include "platform/gpu/device.h"
#include "runtime/gpu/launch/device_event.h"
#include "runtime/gpu/launch/kernel_sequence.h"
#include "runtime/gpu/resources/device_resources.h"
#include "runtime/gpu/watch/device_watch.h"

namespace sccl::runtime {

// Whether other ranks of this process launch kernels on this device (launch_pace.h).
enum class HardwareQueues : std::uint8_t { own, shared };

class LaunchOrder {
 public:
  // All must outlive this object.
  LaunchOrder(DeviceResources& resources, const DeviceWatch& watch, const KernelSequence& sequence,
              HardwareQueues queues);

  // Whether order_after_last() would record an event now, behind all that is on the last call's stream.
  bool records_late(gpu::Stream stream, const gpu::CaptureState& capture);
  void record_late(const gpu::CaptureState& capture) { record(last_of(capture)); }
  // Orders the next work on the stream after the last call.
  void order_after_last(gpu::Stream stream, const gpu::CaptureState& capture);
  // numbered: by KernelSequence, so that the end of the call is known.
  enum class Numbers : std::uint8_t { numbered, none };
  // A call was enqueued.
  void enqueued(gpu::Stream stream, const gpu::CaptureState& capture, Numbers numbers = Numbers::numbered);
  // The kernels that the last call waits for have been launched, too. Until then, nothing must stand behind the call in
  // its hardware queue.
  void finish_launch();
  // The kernels that the last call waits for will not be launched.
  void drop_pending() noexcept;

  // The event behind the last call that was not captured.
  void* event() const { return last_.event.handle(); }

 private:
  // The last call of one kind, captured or not: an event of one kind cannot order calls of the other kind.
  struct Last {
    explicit Last(const gpu::Device& device) : event(device) {}
    DeviceEvent event;  // behind the call
    gpu::StreamIdentity stream;
    unsigned long long capture = 0;  // the call's capture; 0: none
    bool recorded = false;
    bool pending = false;  // the call is enqueued, the event not recorded
    Numbers numbers = Numbers::numbered;
  };
  Last& last_of(const gpu::CaptureState& capture) { return capture.id == 0 ? last_ : last_captured_; }
  void record(Last& last);
  // Whether the stream is the one of the last call.
  bool is_stream_of(const Last& last, gpu::Stream stream) const;
  const gpu::Driver& driver() const { return *resources_.membership().device.driver; }

  DeviceResources& resources_;
  const DeviceWatch& watch_;
  const KernelSequence& sequence_;
  HardwareQueues queues_;
  Last last_;
  Last last_captured_;
};

}  // namespace sccl::runtime
