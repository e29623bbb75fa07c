// Runs one rank's calls on its device: one kernel for each call, or operations that the caller's stream orders. No
// function here waits for peers; a thread watches the calls in flight.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "runtime/call/requests.h"
#include "runtime/call/window.h"
#include "runtime/gpu/choice/device_chooser.h"
#include "runtime/gpu/kernel/collective_records.h"
#include "runtime/gpu/kernel/kernel_calls.h"
#include "runtime/gpu/kernel/one_sided_kernels.h"
#include "runtime/gpu/kernel/streamed_calls.h"
#include "runtime/gpu/launch/device_launcher.h"
#include "runtime/gpu/launch/prepared_calls.h"
#include "runtime/gpu/launch/side_stream.h"
#include "runtime/gpu/resources/device_resources.h"
#include "runtime/gpu/resources/symmetric_windows.h"
#include "runtime/gpu/watch/buffer_withdrawal.h"
#include "runtime/gpu/watch/device_watch.h"
#include "runtime/gpu/watch/periodic_thread.h"
#include "runtime/membership/membership.h"

namespace sccl::runtime {

class DeviceExecutor {
 public:
  // `membership` has a device. `membership`, `stop` and the objects that `on_failure` refers to must outlive this
  // object. The watching thread calls `on_failure`, once, when a call cannot end. `vendor` may be null.
  DeviceExecutor(Membership& membership, const StopFlags& stop, std::function<void(const Error&)> on_failure,
                 VendorBackend* vendor = nullptr);
  // Returns when the device has finished its work, or has been told to stop.
  ~DeviceExecutor();
  DeviceExecutor(const DeviceExecutor&) = delete;
  DeviceExecutor& operator=(const DeviceExecutor&) = delete;

  // Throw invalid_argument for buffers that the device cannot use. Then nothing has begun, and the call may be
  // repeated.
  void check(const CollectiveRequest& request) const;
  void check(std::span<const PointToPointRequest> batch) const;
  void check(const PutRequest& request) const;

  // A call is prepared, then launched. Preparing does what may wait for the device; launching waits for nothing, so
  // that a thread with calls of several ranks prepares all of them before it launches the first: the kernel of one may
  // wait for that of another. Legal while the stream is being captured. Throw the error of an earlier call that could
  // not end.
  // `options`: of this call alone; null: none.
  void prepare(const CollectiveRequest& request, const CallOptions* options = nullptr);
  void prepare(std::span<const PointToPointRequest> batch);
  void prepare(const PutRequest& request);
  void prepare(std::span<const SignalWait> waits, StreamHandle stream);
  // For the prepared call that comes next, if there is one: DeviceLauncher::order_ahead. `again`: after another call of
  // the group, and so after LaunchPace::keep().
  void order_next(bool again);
  // Launches the first prepared call; false if there is none. Afterwards: DeviceLauncher::finish() and
  // LaunchPace::keep(). Calls of the vendor's library go into `group`, which runs before finish().
  bool launch_next(VendorGroup& group);
  DeviceLauncher& launcher() { return launcher_; }
  // Launches all prepared calls. Afterwards none stays prepared, also if launch_all() throws.
  void launch_all();
  void drop_prepared() noexcept;
  DeviceChooser& chooser() { return chooser_; }
  // Throws invalid_usage where the driver does not tell when a kernel has been launched.
  void check_launch_events() const;

  // Kernels use the window's mappings from now on. When the window is deregistered, the caller releases it, too.
  void add_window(const Window& window);
  void remove_window(const Window& window) { windows_.remove(window); }
  // Frees memory that nothing else holds, unless a kernel may still use it.
  void drop_unused();

  SideStream& side_stream() { return side_stream_; }

  // Takes this rank's buffers back: see BufferWithdrawal. May be called by any thread, more than once.
  void withdraw() noexcept {
    if (chooser_.vendor().backend() != nullptr) chooser_.vendor().backend()->abort();
    withdrawal_.withdraw();
  }

  // Waits for the calls in flight, then ends the thread that watches them: afterwards nobody reports a failure. May be
  // called before the destructor, which does the same.
  void end();

  // Tells of the calls that run, and makes their kernels end soon, whatever they wait for.
  CallsInFlight& in_flight() { return watch_.in_flight(); }

 private:
  void prepare_in_kernel(const CollectiveRequest& request, gpu::Stream stream, const CallOptions& options);
  void prepare_in_stream(const CollectiveRequest& request, gpu::Stream stream, const CallOptions& options);

  Membership& membership_;
  HeldResources resources_;
  DeviceWatch watch_;
  BufferWithdrawal withdrawal_;
  DeviceChooser chooser_;
  DeviceLauncher launcher_;
  SideStream side_stream_;
  PreparedCalls prepared_;
  SymmetricWindows windows_;
  CollectiveRecords records_;
  KernelCalls kernels_;
  OneSidedKernels one_sided_;
  std::optional<StreamedCalls> streams_;  // present if streams order some calls

  bool ended_ = false;
  // The last member: a turn of the watch reports failures to the owner, which calls withdraw(). So the thread starts
  // when all other members have been made, and ends before any of them is destroyed.
  PeriodicThread thread_;
};

}  // namespace sccl::runtime
