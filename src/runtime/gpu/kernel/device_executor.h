// Runs one rank's calls on its device: a kernel for each, on the caller's stream. Nothing here waits for peers; a
// thread watches over what runs.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "runtime/call/requests.h"
#include "runtime/call/signature.h"
#include "runtime/call/window.h"
#include "runtime/choice/plan_cache.h"
#include "runtime/choice/schedule_model.h"
#include "runtime/gpu/kernel/device_tuner.h"
#include "runtime/gpu/kernel/device_watch.h"
#include "runtime/gpu/resources/device_resources.h"
#include "runtime/gpu/resources/symmetric_windows.h"
#include "runtime/gpu/stream/stream_calls.h"
#include "runtime/gpu/stream/stream_signals.h"
#include "runtime/membership/membership.h"
#include "runtime/program/transfers.h"
#include "schedule/layout.h"

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

  // Throw invalid_argument for buffers that the device cannot use. Nothing is begun by then, and the call may be made
  // again.
  void check(const CollectiveRequest& request) const;
  void check(std::span<const PointToPointRequest> batch) const;

  // Enqueue. Legal while the stream is being captured. Throw the error of an earlier call that could not end.
  void launch(const CollectiveRequest& request);
  void launch(std::span<const PointToPointRequest> batch);
  void check(const PutRequest& request) const;
  void launch(const PutRequest& request);
  void launch(std::span<const SignalWait> waits, StreamHandle stream);

  // Kernels use its mappings from now on; the caller lets go of it, too, when it is no longer wanted.
  void add_window(const Window& window);
  void remove_window(const Window& window) { windows_.remove(window); }
  // Gives back what nobody else holds, unless a kernel may still use it.
  void drop_unused();

  // Several ranks of one device whose calls are given the same stream must not wait for one another on it: between
  // these two, calls run on a stream of this rank's own, after what was on `stream` before and before what comes after.
  void fork(StreamHandle stream);
  void join();

  // Takes this rank's buffers back: returns when no peer's kernel and no stream that was released uses them, or after a
  // time that is too long for one. May be called by any thread, more than once.
  void withdraw() noexcept;

  // Kernels end soon, whatever they wait for.
  void stop() noexcept { watch_.stop_kernels(); }

 private:
  using Arguments = device::gpu::CallArguments;
  using OneSidedArguments = device::gpu::OneSidedArguments;

  struct Launch {
    void* function;
    device::u32 blocks;
    device::u32 threads;
    device::u64 shared_bytes;
    void** parameters;
  };

  struct Geometry {
    std::size_t longest_bytes = 0;  // of a chunk
    std::size_t least_part_bytes = 0;
    bool parts_by_chunk = false;
  };
  struct KnownProgram {
    device::Program program;
    const kernels::FlatProgram* flat;
  };

  KnownProgram program_of(const Plan& plan);
  using Windows = std::optional<SymmetricWindows::Pair>;
  void begin(const CollectiveRequest& request, const Windows& used);
  Choice usual_choice(const CollectiveRequest& request, const Windows& windows);
  Choice choose_plan(const CollectiveRequest& request, const Windows& windows);
  Choice choose_on_links(const CollectiveRequest& request, const Windows& windows);
  DeviceReach reach() const { return {on_device_.direct, on_device_.lines == LineVerdict::whole}; }
  void describe(device::Call& call, const CollectiveRequest& request) const;
  gpu::Stream stream_for(StreamHandle handle) const {
    return forked_ ? side_stream_ : static_cast<gpu::Stream>(handle);
  }
  bool goes_by_stream(bool reduces, std::size_t bytes, gpu::Stream stream);
  Choice choose_for_stream(const CollectiveRequest& request);
  void launch_in_stream(const CollectiveRequest& request);
  void launch_in_stream(std::span<const PointToPointRequest> batch);
  void launch_in_stream(const PutRequest& request);
  void launch_in_stream(std::span<const SignalWait> waits, gpu::Stream stream);
  void launch_in_kernel(std::span<const PointToPointRequest> batch);
  template <typename Enqueue>
  void submit_to_stream(gpu::Stream stream, Enqueue&& enqueue);
  void enqueued(gpu::Stream stream, const gpu::CaptureState& capture);
  void fill_common(Arguments& arguments, const kernels::FlatProgram& flat, const Geometry& geometry);
  void fill_chunks(Arguments& arguments, std::span<const device::Chunk> chunks, device::u64 sequence);
  void fill_scale(Arguments& arguments, const Reduction& reduction, DataType type);
  void submit(Arguments& arguments, const kernels::Instance& instance, const kernels::FlatProgram& flat,
              gpu::Stream stream);
  void submit(OneSidedArguments& arguments, StreamHandle stream);
  void enqueue(const Launch& launch, device::u64 sequence, gpu::Stream stream, const gpu::CaptureState& capture);
  void announce(device::u64 sequence, gpu::Stream stream);
  void refuse_after_withdrawal() const;
  void take_back_announcement(device::u64 sequence);
  const DevicePeer& peer(Rank rank) const { return on_device_.peers[static_cast<std::size_t>(rank)]; }
  void order_after_last(gpu::Stream stream, const gpu::CaptureState& capture);
  void keep_for_graph(const gpu::CaptureState& capture);
  void check_buffer(const void* buffer, const char* which) const;

  Membership& membership_;
  const DeviceMembership& on_device_;
  const gpu::Driver& driver_;
  std::shared_ptr<DeviceResources> resources_;
  DeviceWatch watch_;
  PlanCache plans_;
  std::unique_ptr<ScheduleModel> schedule_model_;                               // when the user has named the links
  std::map<std::tuple<Collective, Rank, std::size_t, bool>, Choice> modelled_;  // by size class, and whether in windows
  DeviceTuner tuner_;
  SymmetricWindows windows_;
  std::atomic<bool> lends_buffers_;  // peers' kernels may use buffers of this rank
  std::map<const Plan*, KnownProgram> programs_;
  TransferBatch transfers_;
  std::optional<StreamCalls> streams_;  // where some calls are ordered by streams
  std::optional<StreamSignals> signals_;
  bool told_of_capture_ = false;
  std::atomic<bool> has_windows_{false};            // into which peers write
  std::vector<PointToPointRequest> small_, large_;  // of the last batch
  std::vector<schedule::ChunkPlace> places_;
  std::vector<device::Chunk> chunks_;
  std::uint64_t calls_ = 0;
  std::uint64_t launches_ = 0;

  void* event_ = nullptr;  // behind the last kernel
  gpu::Stream last_stream_ = nullptr;
  unsigned long long last_capture_ = 0;
  bool launched_ = false;
  unsigned long long kept_for_ = 0;  // the capture whose graph holds the resources

  gpu::Stream side_stream_ = nullptr;
  void* fork_event_ = nullptr;
  gpu::Stream forked_from_ = nullptr;
  bool forked_ = false;
};

}  // namespace sccl::runtime
