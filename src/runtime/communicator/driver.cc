#include "runtime/communicator/driver.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/os/cancellation.h"
#include "runtime/communicator/communicator.h"
#include "runtime/gpu/kernel/device_executor.h"
#include "runtime/host/executor.h"
#include "runtime/host/health/stall_cause.h"
#include "runtime/plugins/profiled_work.h"
#include "runtime/vendor/vendor_choice.h"
#include "runtime/waiting/stall_watch.h"
#include "runtime/waiting/waiter.h"
#include "runtime/windows/one_sided.h"

namespace sccl::runtime {
namespace {

// Between two looks at a stream of the program.
constexpr std::chrono::microseconds kStreamPause{20};
// Between two looks at an agreement.
constexpr std::chrono::microseconds kAgreementPause{200};

// Steps one executor; a failure is published to the peers before it is passed on.
template <typename Action>
auto guarded(Communicator& communicator, Action&& action) {
  try {
    return action();
  } catch (const RefusedByAll&) {
    throw;
  } catch (const Error& error) {
    communicator.record_failure(error);
    throw;
  } catch (const std::bad_alloc&) {
    const Error error(ErrorCode::system_error,
                      fmt::format("rank {} is out of memory in a call: free some", communicator.rank()));
    communicator.record_failure(error);
    throw error;
  }
}

Waiter& waiter_for(int ranks_on_host) {
  thread_local std::optional<std::pair<int, Waiter>> kept;
  if (!kept || kept->first != ranks_on_host) kept.emplace(ranks_on_host, Waiter(ranks_on_host));
  kept->second.reset();
  return kept->second;
}

// `options`: of the call, or null.
void watch_wait(StallWatch& watch, Communicator& communicator, std::chrono::milliseconds waited,
                const CallOptions* options = nullptr) {
  const Executor& executor = *communicator.on_host();
  const bool has_own = options != nullptr && options->timeout_ms >= 0;
  watch.check(
      communicator.rank(), waited,
      [&] { return executor.text() + absent_text(communicator.membership(), executor.awaited()); },
      [&] { return stall_cause(communicator.membership(), executor.awaited()); },
      has_own ? options->timeout_ms : communicator.membership().timeout_ms);
}

// What ranks of a call wait for that no schedule serves concerns all ranks of a host, which sleep at one bell.
host::SleepingPlace sleeping_place(Communicator& communicator) {
  const Bells bells = communicator.membership().control.bells();
  return {&bells.own(), communicator.on_host()->served() == nullptr ? &bells.of_host() : nullptr};
}

// For a call that has not ended in its first step.
[[gnu::noinline]] void wait_for_end(Communicator& communicator, Executor::Progress progress) {
  Executor& executor = *communicator.on_host();
  const NoCancellation uncancelled;
  Waiter& waiter = executor.waiter();
  waiter.reset();
  StallWatch watch;
  bool slept = false;
  while (progress != Executor::Progress::done) {
    if (progress == Executor::Progress::moved) {
      waiter.reset();
      watch.reset();
      if (executor.look_up() == Executor::Progress::done) return;
    } else {
      const auto poll = [&] {
        progress = executor.step();
        if (progress != Executor::Progress::idle) return true;
        executor.engine().before_sleep();
        slept = true;
        return false;
      };
      const Waiter::Next next = waiter.pause(
          sleeping_place(communicator), [&] { return executor.may_go_on(); }, poll);
      if (std::exchange(slept, false)) executor.engine().after_sleep();
      if (next == Waiter::Next::check_health) {
        if (progress == Executor::Progress::done) return;
        progress = executor.check_health();
        if (progress == Executor::Progress::done) return;
        if (progress == Executor::Progress::idle) watch_wait(watch, communicator, waiter.waited());
      }
    }
    progress = executor.step();
  }
}

void finish(Communicator& communicator) {
  const Executor::Progress progress = communicator.on_host()->step();
  if (progress != Executor::Progress::done) wait_for_end(communicator, progress);
}

ProfilerPlugin::Served served_by(const Executor& executor) {
  const Choice* const choice = executor.served();
  if (choice == nullptr) return {};
  return {choice->planner, choice->form == Form::direct ? "direct" : std::string(name_of(choice->protocol))};
}

[[gnu::cold]] void run_profiled(Communicator& communicator, const CollectiveRequest& request) {
  const NoCancellation uncancelled;
  ProfiledWork profiled(*communicator.profiler(), {&request, 1}, {});
  Executor& executor = *communicator.on_host();
  executor.begin(request);
  profiled.begin_collective(served_by(executor), ProfiledWork::On::host, executor.engine().traffic());
  finish(communicator);
}

// On a device the host's part of a call ends when the call is enqueued.
[[gnu::cold]] std::optional<ProfiledWork>& begin_profiled(std::optional<ProfiledWork>& profiled,
                                                          Communicator& communicator,
                                                          std::span<const CollectiveRequest> collectives,
                                                          std::span<const PointToPointRequest> transfers,
                                                          StreamHandle stream) {
  profiled.emplace(*communicator.profiler(), collectives, transfers);
  for (std::size_t i = 0; i < collectives.size(); ++i) profiled->begin_collective({}, ProfiledWork::On::device);
  if (!transfers.empty()) profiled->begin_transfers(ProfiledWork::On::device);
  profiled->begin_launch(stream);
  return profiled;
}

// How far one communicator has come with its workload, when several communicators share the thread.
class GroupProgress {
 public:
  explicit GroupProgress(Workload& work)
      : work_(work), running_call_(*work.communicator), engine_(work.communicator->on_host()->engine()) {
    if (ProfilerPlugin* const plugin = work.communicator->profiler(); plugin != nullptr)
      profiled_.emplace(*plugin, work.collectives, work.transfers);
  }

  bool finished() const { return finished_; }
  Communicator& communicator() { return *work_.communicator; }
  Executor& executor() { return *work_.communicator->on_host(); }
  host::SleepingPlace sleeping_place() { return runtime::sleeping_place(communicator()); }

  // True when something moved.
  bool advance() {
    if (!running_ && !start_next()) {
      end();
      return true;
    }
    return note(guarded(communicator(), [&] {
      const Executor::Progress progress = executor().step();
      return progress == Executor::Progress::moved ? executor().look_up() : progress;
    }));
  }

  void check_health(std::chrono::milliseconds waited) {
    if (finished_ || !running_) return;
    guarded(communicator(), [&] {
      if (!note(executor().check_health())) watch_wait(watch_, communicator(), waited, options_);
    });
  }

  void give_up() {
    given_up_ = true;
    end();
  }

  // Nothing of this work can be what the streams wait for: it comes after what is on them.
  void await_streams() {
    if (work_.behind.empty()) return;
    guarded(communicator(), [&] {
      for (const gpu::ForeignStream& stream : work_.behind) await(stream);
    });
  }

  // What is one-sided waits for nobody, so that it comes before everything that does.
  void put() {
    guarded(communicator(), [&] {
      check_windows(work_, RestOfGroup::under_way);
      for (const PutRequest& put : work_.puts) communicator().one_sided().put(put);
    });
  }
  // Called when all other work of this thread's communicators is done: the signals may depend on that work.
  void wait_for_signals() {
    if (given_up_ || work_.waits.empty()) return;
    guarded(communicator(), [&] { communicator().one_sided().wait(work_.waits); });
  }

 private:
  void await(const gpu::ForeignStream& stream) {
    StallWatch watch;
    const auto begun = std::chrono::steady_clock::now();
    const auto text = [&] { return fmt::format("a call that comes after the work on stream {}", stream.handle()); };
    while (!stream.has_ended()) {
      if (executor().is_stopped())
        fail(ErrorCode::invalid_usage, "rank {} was aborted or revoked while in {}", communicator().rank(), text());
      std::this_thread::sleep_for(kStreamPause);
      const auto waited = std::chrono::steady_clock::now() - begun;
      watch.check(communicator().rank(), std::chrono::duration_cast<std::chrono::milliseconds>(waited), text, nullptr,
                  communicator().membership().timeout_ms);
    }
  }

  // The others of this thread may go on for long, and sleep.
  void end() {
    finished_ = true;
    engine_.end();
  }
  // True if the call moved or is done.
  bool note(Executor::Progress progress) {
    if (progress == Executor::Progress::done) {
      running_ = false;
      if (profiled_) profiled_->end();
    }
    if (progress != Executor::Progress::idle) watch_.reset();
    return progress != Executor::Progress::idle;
  }

  bool start_next() {
    return guarded(communicator(), [&] {
      Executor& executor = *communicator().on_host();
      if (next_ < work_.collectives.size()) {
        options_ = work_.options_of(next_);
        const CollectiveRequest& request = work_.collectives[next_++];
        options_ != nullptr ? executor.begin(request, options_) : executor.begin(request);
        if (profiled_)
          profiled_->begin_collective(served_by(executor), ProfiledWork::On::host, executor.engine().traffic());
      } else if (!transfers_begun_ && !work_.transfers.empty()) {
        transfers_begun_ = true;
        options_ = nullptr;
        executor.begin(work_.transfers);
        if (profiled_) profiled_->begin_transfers(ProfiledWork::On::host, executor.engine().traffic());
      } else {
        return false;
      }
      running_ = true;
      return true;
    });
  }

  Workload& work_;
  Communicator::RunningCall running_call_;
  EngineUse::Turn engine_;
  std::optional<ProfiledWork> profiled_;
  StallWatch watch_;
  const CallOptions* options_ = nullptr;  // of the call in progress
  std::size_t next_ = 0;
  bool transfers_begun_ = false;
  bool running_ = false;
  bool finished_ = false;
  bool given_up_ = false;
};

class GroupRun {
 public:
  explicit GroupRun(std::vector<Workload>& work) {
    for (Workload& entry : work) {
      progress_.emplace_back(entry);
      ranks_on_host_ = std::max(ranks_on_host_, entry.communicator->membership().ranks_on_this_host());
    }
  }

  void run() {
    for (GroupProgress& progress : progress_) attempt(progress, [&] { progress.await_streams(); });
    for (GroupProgress& progress : progress_)
      if (!progress.finished()) attempt(progress, [&] { progress.put(); });
    move_data();
    for (GroupProgress& progress : progress_) attempt(progress, [&] { progress.wait_for_signals(); });
    if (first_error_) throw Error(*first_error_);
  }

 private:
  void move_data() {
    Waiter& waiter = waiter_for(ranks_on_host_);
    while (unfinished() > 0) {
      if (turn()) {
        waiter.reset();
        continue;
      }
      waiter.expect(polls());
      const host::SleepingPlace place = unfinished() == 1 ? last().sleeping_place() : nullptr;
      bool moved = false;
      EngineUse* sleeper = nullptr;
      const auto poll = [&] {
        // A turn may end the last call with an error: then there is nothing to wait for.
        moved = turn() || unfinished() == 0;
        if (!moved) (sleeper = &last().executor().engine())->before_sleep();
        return moved;
      };
      const Waiter::Next next = waiter.pause(place, poll);
      if (sleeper != nullptr) sleeper->after_sleep();
      if (next == Waiter::Next::poll) continue;
      if (moved)
        waiter.reset();
      else
        for (GroupProgress& progress : progress_) attempt(progress, [&] { progress.check_health(waiter.waited()); });
    }
  }

  // What a turn asks.
  Waiter::Polls polls() {
    const auto asks = [](GroupProgress& progress) {
      return !progress.finished() && progress.executor().engine().is_held();
    };
    return std::any_of(progress_.begin(), progress_.end(), asks) ? Waiter::Polls::engine : Waiter::Polls::memory;
  }

  std::size_t unfinished() const {
    std::size_t count = 0;
    for (const GroupProgress& progress : progress_) count += progress.finished() ? 0 : 1;
    return count;
  }

  GroupProgress& last() {
    for (GroupProgress& progress : progress_)
      if (!progress.finished()) return progress;
    fail(ErrorCode::internal_error, "no call of the group is unfinished");
  }

  bool turn() {
    bool moved = false;
    for (GroupProgress& progress : progress_)
      if (!progress.finished()) attempt(progress, [&] { moved = progress.advance() || moved; });
    return moved;
  }

  template <typename Action>
  void attempt(GroupProgress& progress, Action&& action) {
    try {
      action();
    } catch (const Error& error) {
      if (!first_error_) first_error_ = error;
      progress.give_up();
    }
  }

  std::deque<GroupProgress> progress_;  // its elements do not move
  int ranks_on_host_ = 1;
  std::optional<Error> first_error_;
};

// The first of streams_of(): the one on which the work runs.
StreamHandle stream_of(const Workload& work) {
  if (!work.collectives.empty()) return work.collectives.front().stream;
  if (!work.transfers.empty()) return work.transfers.front().stream;
  if (!work.puts.empty()) return work.puts.front().stream;
  return work.wait_streams.empty() ? nullptr : work.wait_streams.front();
}

// In the order of the calls.
template <typename Visit>
void for_each_stream(const Workload& work, Visit&& visit) {
  for (const CollectiveRequest& request : work.collectives) visit(request.stream);
  for (const PointToPointRequest& request : work.transfers) visit(request.stream);
  for (const PutRequest& request : work.puts) visit(request.stream);
  for (const StreamHandle stream : work.wait_streams) visit(stream);
}

// Asked at every launch: makes no list.
bool has_several_streams(const Workload& work) {
  bool several = false;
  for_each_stream(work, [&, first = stream_of(work)](StreamHandle stream) { several = several || stream != first; });
  return several;
}

// Each once.
std::vector<StreamHandle> streams_of(const Workload& work) {
  std::vector<StreamHandle> streams;
  for_each_stream(work, [&](StreamHandle stream) {
    if (std::ranges::find(streams, stream) == streams.end()) streams.push_back(stream);
  });
  return streams;
}

// Work on several streams is ordered by events, which a capture keeps to itself.
void check_captures(const Workload& work, const std::vector<StreamHandle>& streams) {
  const gpu::Device& device = *work.communicator->options().accelerator;
  const gpu::Current current(device);
  const auto capture = [&](StreamHandle stream) {
    return gpu::capture_of(*device.driver, static_cast<gpu::Stream>(stream)).id;
  };
  for (const StreamHandle stream : streams)
    if (capture(stream) != capture(streams.front()))
      fail(ErrorCode::invalid_usage,
           "rank {}: a group has calls on {} streams, of which not all are in the same capture: capture all of them or "
           "none, or use a group for each",
           work.communicator->rank(), streams.size());
}

// The legacy default stream waits for all streams that do not ask not to be waited for, and they wait for it.
bool wait_for_each_other(StreamHandle one, StreamHandle other) {
  const auto is_legacy = [](StreamHandle stream) { return gpu::is_legacy(static_cast<gpu::Stream>(stream)); };
  return one == other || is_legacy(one) || is_legacy(other);
}

// Whether another rank of the same device uses the same stream, or one that may wait for this one. The kernels of both
// ranks must still run side by side.
bool shares_stream(const Workload& work, const std::vector<Workload*>& all) {
  return std::any_of(all.begin(), all.end(), [&](const Workload* other) {
    return other != &work && wait_for_each_other(stream_of(*other), stream_of(work)) &&
           other->communicator->options().accelerator->context == work.communicator->options().accelerator->context &&
           other->communicator->options().accelerator->ordinal == work.communicator->options().accelerator->ordinal;
  });
}

void prepare(Workload& work) {
  DeviceExecutor& device = *work.communicator->on_device();
  for (const PutRequest& put : work.puts) device.prepare(put);
  for (std::size_t i = 0; i < work.collectives.size(); ++i) device.prepare(work.collectives[i], work.options_of(i));
  if (!work.transfers.empty()) device.prepare(work.transfers);
  if (!work.waits.empty()) device.prepare(work.waits, work.wait_streams.front());
}

// The first call that wants the vendor's library waits until the ranks have agreed on it: as its peers' threads may be
// this one, all of this thread's communicators agree at the same time. What is captured cannot wait for that, and is
// served as usual.
class VendorAgreement {
 public:
  void add(Communicator& communicator, const CollectiveRequest& request, const CallOptions* options) {
    const VendorChoice& vendor = communicator.on_device()->chooser().vendor();
    if (vendor.backend() == nullptr) return;
    const gpu::Device& device = *communicator.options().accelerator;
    const gpu::Current current(device);  // the thread may have no context
    if (vendor.is_due(request, wish_of(options)) &&
        gpu::capture_of(*device.driver, static_cast<gpu::Stream>(request.stream)).id == 0)
      guarded(communicator, [&] { vendor.backend()->begin_agreement(); });
    if (vendor.is_asked(request.collective, wish_of(options)) ||
        vendor.backend()->state() == VendorBackend::State::agreeing)
      wanted_.push_back({&communicator, &request, options});
  }
  // Throws RefusedByAll for a call that cannot have it and must.
  void wait() {
    for (const Wanted& one : wanted_) {
      const VendorChoice& vendor = one.communicator->on_device()->chooser().vendor();
      guarded(*one.communicator, [&] {
        while (!vendor.backend()->decided()) std::this_thread::sleep_for(kAgreementPause);
        vendor.check(std::string(info(one.request->collective).call_name), one.options);
      });
    }
  }

 private:
  struct Wanted {
    Communicator* communicator;
    const CollectiveRequest* request;
    const CallOptions* options;
  };
  std::vector<Wanted> wanted_;
};

// Throws before anything is enqueued if a buffer is wrong. If a communicator fails later, the other communicators'
// kernels are still enqueued, and the first error is returned.
std::optional<Error> launch_all(const std::vector<Workload*>& all) {
  VendorAgreement agreement;
  for (const Workload* work : all) {
    for (std::size_t i = 0; i < work->collectives.size(); ++i)
      agreement.add(*work->communicator, work->collectives[i], work->options_of(i));
    const DeviceExecutor& device = *work->communicator->on_device();
    for (const CollectiveRequest& request : work->collectives) device.check(request);
    device.check(work->transfers);
    check_windows(*work);
    for (const PutRequest& put : work->puts) device.check(put);
    if (has_several_streams(*work)) check_captures(*work, streams_of(*work));
  }
  agreement.wait();
  std::optional<Error> first;
  const auto attempt = [&](Workload& work, const auto& action) {
    try {
      guarded(*work.communicator, action);
    } catch (const Error& error) {
      work.communicator->on_device()->drop_prepared();
      if (!first) first = error;
    }
  };
  for (Workload* work : all)
    if (shares_stream(*work, all))
      attempt(*work, [&] { work->communicator->on_device()->side_stream().fork(stream_of(*work)); });
  for (Workload* work : all)
    if (has_several_streams(*work))
      attempt(*work, [&] { work->communicator->on_device()->side_stream().gather(streams_of(*work)); });
  std::deque<Communicator::RunningCall> running;
  std::deque<std::optional<ProfiledWork>> profiled;
  for (Workload* work : all)
    if (work->communicator->profiler() != nullptr)
      begin_profiled(profiled.emplace_back(), *work->communicator, work->collectives, work->transfers,
                     stream_of(*work));
  for (Workload* work : all) {
    running.emplace_back(*work->communicator);
    attempt(*work, [&] { prepare(*work); });
  }
  // One call of each rank in turn: with few hardware queues, a rank's second call could otherwise stand in a queue
  // before another rank's first call, and wait for it. Those of this group have all launched after a turn: keeping pace
  // waits only for ranks of other threads. It waits before a further call alone, and at the end: other ranks' groups
  // may take more turns, and wait for another communicator of this one meanwhile.
  for (bool any = true, again = false; any; again = true) {
    any = false;
    for (Workload* work : all) attempt(*work, [&] { work->communicator->on_device()->order_next(again); });
    VendorGroup group;
    for (Workload* work : all)
      attempt(*work, [&] { any = work->communicator->on_device()->launch_next(group) || any; });
    attempt(*all.front(), [&] { group.run(); });
    for (Workload* work : all)
      attempt(*work, [&] {
        DeviceExecutor& device = *work->communicator->on_device();
        group.check(device.chooser().vendor().backend());
        device.launcher().finish();
      });
  }
  for (Workload* work : all) work->communicator->on_device()->launcher().pace().keep();
  // What joins the streams stands in hardware queues until the kernels end, so it comes after the kernels of all ranks.
  for (Workload* work : all) attempt(*work, [&] { work->communicator->on_device()->side_stream().join(); });
  return first;
}

[[gnu::noinline]] void drive_on_device(Communicator& communicator, const CollectiveRequest& request) {
  DeviceExecutor& device = *communicator.on_device();
  const NoCancellation uncancelled;
  device.check(request);
  VendorAgreement agreement;
  agreement.add(communicator, request, nullptr);
  agreement.wait();
  std::optional<ProfiledWork> profiled;
  if (communicator.profiler() != nullptr) begin_profiled(profiled, communicator, {&request, 1}, {}, request.stream);
  guarded(communicator, [&] {
    device.prepare(request);
    device.launch_all();
    device.launcher().pace().keep();
  });
}

}  // namespace

void drive(Communicator& communicator, const CollectiveRequest& request) {
  const Communicator::RunningCall running(communicator);
  if (communicator.on_device() != nullptr) return drive_on_device(communicator, request);
  std::optional<NoCancellation> uncancelled;
  if (communicator.on_host()->engine().exists()) uncancelled.emplace();  // it may write to sockets in any step
  const EngineUse::Turn engine(communicator.on_host()->engine());
  guarded(communicator, [&] {
    if (communicator.profiler() != nullptr) return run_profiled(communicator, request);
    communicator.on_host()->begin(request);
    finish(communicator);
  });
}

void drive(Communicator& communicator, std::span<const PointToPointRequest> transfers) {
  const NoCancellation uncancelled;
  const Communicator::RunningCall running(communicator);
  const EngineUse::Turn engine(communicator.on_host()->engine());
  guarded(communicator, [&] {
    communicator.on_host()->begin(transfers);
    finish(communicator);
  });
}

void check_windows(const Workload& work, RestOfGroup rest) {
  for (const PutRequest& put : work.puts)
    if (put.window != nullptr && !work.communicator->one_sided().has(put.window))
      fail(ErrorCode::invalid_usage,
           "rank {}: window {} was deregistered while ncclPutSignal was to write into rank {}'s part of it{}: "
           "deregister "
           "a window when the work on it has ended",
           work.communicator->rank(), static_cast<const void*>(put.window), put.to.peer,
           rest == RestOfGroup::not_made ? ", and no call of that group was made" : "");
}

void drive(std::vector<Workload>& work) {
  const NoCancellation uncancelled;
  const auto uses_device = [](const Workload& entry) { return entry.communicator->on_device() != nullptr; };
  if (std::none_of(work.begin(), work.end(), uses_device)) return GroupRun(work).run();
  std::vector<Workload> on_host;
  std::vector<Workload*> on_device;
  for (Workload& entry : work)
    if (entry.communicator->on_device() != nullptr)
      on_device.push_back(&entry);
    else
      on_host.push_back(entry);
  // Kernels first: they run while this thread serves the communicators on the host.
  std::optional<Error> error = launch_all(on_device);
  try {
    if (!on_host.empty()) GroupRun(on_host).run();
  } catch (const Error& later) {
    if (!error) error = later;
  }
  if (error) throw Error(*error);
}

}  // namespace sccl::runtime
