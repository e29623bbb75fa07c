// Runs one rank's calls on its device: a kernel for each, or operations that the caller's stream orders. Nothing here
// waits for peers; a thread watches over what is in flight.
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
  // `membership` has a device; it, `stop` and what `on_failure` refers to must outlive this. on_failure is called by
  // the watching thread, once, when a call cannot end.
  DeviceExecutor(Membership& membership, const StopFlags& stop, std::function<void(const Error&)> on_failure);
  // Returns when the device has done what was asked for, or has been told to stop.
  ~DeviceExecutor();
  DeviceExecutor(const DeviceExecutor&) = delete;
  DeviceExecutor& operator=(const DeviceExecutor&) = delete;

  // Throw invalid_argument for buffers that the device cannot use. Nothing has begun by then, and the call may be made
  // again.
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
  // Launches the first of the calls that are prepared; false: there is none. What other streams wait for comes with
  // finish_launch(), when the kernels that this one waits for have been launched: a hardware queue may hold up what
  // stands behind it.
  bool launch_next();
  void finish_launch() { launcher_.order().finish_launch(); }
  // All of them. Also when something is thrown: then nothing stays prepared.
  void launch_all();
  void drop_prepared() noexcept;
  // See DeviceChooser.
  bool can_serve(const std::string& algorithm, Collective collective, Rank root) {
    return chooser_.can_serve(algorithm, collective, root);
  }
  // Throws invalid_usage where the driver does not tell when a kernel has been launched.
  void check_launch_events() const;
  // Between prepare() and launching: see LaunchPace::keep.
  void keep_pace();

  // Kernels use its mappings from now on; the caller lets go of it, too, when it is no longer wanted.
  void add_window(const Window& window);
  void remove_window(const Window& window) { windows_.remove(window); }
  // Gives back what nobody else holds, unless a kernel may still use it.
  void drop_unused();

  // Between these two, calls run on a stream of this rank's own: see SideStream.
  void fork(StreamHandle stream) { side_stream_.fork(stream); }
  void join() { side_stream_.join(); }

  // Takes this rank's buffers back: see BufferWithdrawal. May be called by any thread, more than once.
  void withdraw() noexcept { withdrawal_.withdraw(); }

  // Kernels end soon, whatever they wait for.
  void stop() noexcept { watch_.in_flight().stop_kernels(); }

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
  std::optional<StreamedCalls> streams_;  // where some calls are ordered by streams

  // The last member: a turn of the watch reports failures to the owner, who comes back to withdraw(). So the thread
  // starts when every member has been made, and has ended before any of them goes.
  PeriodicThread thread_;
};

}  // namespace sccl::runtime
