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
#include "runtime/gpu/resources/device_gate.h"
#include "runtime/gpu/resources/device_resources.h"
#include "runtime/gpu/resources/symmetric_windows.h"
#include "runtime/gpu/stream/stream_calls.h"
#include "runtime/gpu/stream/stream_signals.h"
#include "runtime/gpu/watch/device_watch.h"
#include "runtime/gpu/watch/periodic_thread.h"
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

  void check(const PutRequest& request) const;

  // A call is prepared, then launched. Preparing does what may wait for the device; launching waits for nothing, so
  // that a thread with calls of several ranks prepares all of them before it launches the first: the kernel of one may
  // wait for that of another. Legal while the stream is being captured. Throw the error of an earlier call that could
  // not end.
  void prepare(const CollectiveRequest& request);
  void prepare(std::span<const PointToPointRequest> batch);
  void prepare(const PutRequest& request);
  void prepare(std::span<const SignalWait> waits, StreamHandle stream);
  // The first of the calls that are prepared; false: there is none. What other streams wait for comes with
  // finish_launch(), when the kernels that this one waits for have been launched: a hardware queue may hold up what
  // stands behind it.
  bool launch_next();
  void finish_launch();
  // Also when something is thrown: then nothing stays prepared.
  void launch_all();
  void drop_prepared() noexcept;
  // Waits for ranks of this device and process that are more than a call behind: hardware queues may hold up their
  // kernels behind the next one of this rank, which waits for them. Not for long.
  void keep_pace();

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
  void stop() noexcept { watch_.in_flight().stop_kernels(); }

 private:
  using Arguments = device::gpu::CallArguments;
  using OneSidedArguments = device::gpu::OneSidedArguments;

  // A program's way to the device, in front of the first kernel that uses it.
  struct Upload {
    gpu::Address to = 0;
    const std::byte* from = nullptr;  // mapped memory
    std::size_t bytes = 0;
  };
  struct KernelShape {
    void* function;
    device::u32 blocks;
    device::u32 threads;
    device::u64 shared_bytes;
  };
  struct Prepared {
    KernelShape kernel{};
    device::u64 sequence = 0;  // 0: captured
    gpu::Stream stream = nullptr;
    gpu::CaptureState capture;
    Upload upload;
    bool counts = false;  // as a collective
    DeviceTuner::Clock* clock = nullptr;
    Arguments call;
    std::unique_ptr<OneSidedArguments> one_sided;
    std::function<void()> in_stream;  // instead of a kernel
  };

  struct Geometry {
    std::size_t longest_bytes = 0;  // of a chunk
    std::size_t least_part_bytes = 0;
    bool parts_by_chunk = false;
  };
  struct KnownProgram {
    gpu::Address address = 0;  // on the device
    device::Program program;   // there, once the upload has ended
    const kernels::FlatProgram* flat;
    std::vector<std::byte> block;  // until it is uploaded
    device::u64 uploaded_by = 0;   // the kernel behind the upload; 0: none yet
  };

  KnownProgram& program_of(const Plan& plan);
  void place_program(Prepared& prepared, KnownProgram& known);
  std::byte* lend(std::size_t bytes, device::u64 sequence, gpu::Address& address);
  void lend_program(Prepared& prepared, const kernels::FlatProgram& flat);
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
  void prepare_in_stream(const CollectiveRequest& request);
  void prepare_in_stream(std::span<const PointToPointRequest> batch);
  void prepare_in_stream(const PutRequest& request);
  void prepare_in_stream(std::span<const SignalWait> waits, gpu::Stream stream);
  void prepare_in_kernel(std::span<const PointToPointRequest> batch);
  Prepared& new_prepared(gpu::Stream stream);
  template <typename Enqueue>
  void submit_to_stream(gpu::Stream stream, Enqueue&& enqueue);
  void enqueued(gpu::Stream stream, const gpu::CaptureState& capture);
  void fill_common(Arguments& arguments, const kernels::FlatProgram& flat, const Geometry& geometry);
  void fill_chunks(Arguments& arguments, std::span<const device::Chunk> chunks, device::u64 sequence);
  void fill_scale(Arguments& arguments, const Reduction& reduction, DataType type);
  void complete(Prepared& prepared, const kernels::Instance& instance);
  void prepare_one_sided(const OneSidedArguments& arguments, StreamHandle stream);
  void enqueue(Prepared& prepared);
  void announce(device::u64 sequence, gpu::Stream stream);
  void refuse_after_withdrawal() const;
  void take_back_announcement(device::u64 sequence);
  const DevicePeer& peer(Rank rank) const { return on_device_.peers[static_cast<std::size_t>(rank)]; }
  void order_after_last(gpu::Stream stream, const gpu::CaptureState& capture);
  void keep_for_graph(const gpu::CaptureState& capture);
  void check_buffer(const void* buffer, const char* which) const;
  void check_stream(StreamHandle stream) const;
  bool shares_queues(Rank rank) const;

  Membership& membership_;
  const DeviceMembership& on_device_;
  const gpu::Driver& driver_;
  DeviceGate& gate_;
  HeldResources resources_;
  DeviceWatch watch_;
  PlanCache plans_;
  std::unique_ptr<ScheduleModel> schedule_model_;                               // when the user has named the links
  std::map<std::tuple<Collective, Rank, std::size_t, bool>, Choice> modelled_;  // by size class, and whether in windows
  DeviceTuner tuner_;
  SymmetricWindows windows_;
  std::atomic<bool> lends_buffers_;  // peers' kernels may use buffers of this rank
  std::map<const Plan*, KnownProgram> programs_;
  std::vector<std::unique_ptr<Prepared>> prepared_;  // all that were ever needed at a time
  std::size_t prepared_count_ = 0, launched_count_ = 0;
  TransferBatch transfers_;
  std::optional<StreamCalls> streams_;  // where some calls are ordered by streams
  std::optional<StreamSignals> signals_;
  bool told_of_capture_ = false;
  std::atomic<bool> has_windows_{false};            // into which peers write
  std::vector<PointToPointRequest> small_, large_;  // of the last batch
  std::vector<schedule::ChunkPlace> places_;
  std::vector<device::Chunk> chunks_;
  std::uint64_t calls_ = 0;
  std::uint64_t launches_ = 0;  // prepared, too
  std::uint64_t enqueued_ = 0;  // the last of them that is with the driver
  std::uint64_t tickets_ = 0;   // of kernels, captured ones too
  bool shares_queues_ = false;  // with kernels of this process that it may wait for
  bool keeps_pace_ = false;

  // Behind the last kernel of a kind: what is captured and what is not cannot be ordered by one another's events.
  struct Last {
    void* event = nullptr;
    gpu::Stream stream = nullptr;
    unsigned long long capture = 0;  // 0: of none
    bool recorded = false;
    bool pending = false;  // the kernel is launched, the event not recorded
  };
  Last last_, last_captured_;
  Last& last_of(const gpu::CaptureState& capture) { return capture.id == 0 ? last_ : last_captured_; }
  void record(Last& last);
  unsigned long long kept_for_ = 0;  // the capture whose graph holds the resources

  gpu::Stream side_stream_ = nullptr;
  void* fork_event_ = nullptr;
  gpu::Stream forked_from_ = nullptr;
  bool forked_ = false;

  // The last member: it ends before the others go, since its reports come back to this object (withdraw()).
  PeriodicThread thread_;
};

}  // namespace sccl::runtime
