#include "runtime/gpu/watch/device_watch.h"

#include <thread>
#include <utility>

namespace sccl::runtime {
namespace {

constexpr std::chrono::milliseconds kReleasePeriod{1};
// The device is asked when nothing has moved for this long.
constexpr std::chrono::milliseconds kAtRest{50};

// Set in the watching thread, which releases streams; other threads wait for that thread.
thread_local const DeviceWatch* watching_here = nullptr;

}  // namespace

DeviceWatch::DeviceWatch(Membership& membership, DeviceResources& resources, const StopFlags& stop,
                         std::function<void(const Error&)> on_failure)
    : membership_(membership),
      in_flight_(membership, resources),
      health_(membership, in_flight_, stop),
      loss_(resources.membership().device,
            *resources.membership().peers[static_cast<std::size_t>(membership.rank)].words),
      on_failure_(std::move(on_failure)) {}

void DeviceWatch::check() const {
  const std::lock_guard lock(mutex_);
  if (failure_) throw Error(*failure_);
}

std::chrono::milliseconds DeviceWatch::turn(const std::function<void()>& check) {
  watching_here = this;
  bool failed = false;
  {
    const std::lock_guard lock(mutex_);
    failed = failure_.has_value();
  }
  if (failed) return in_flight_.streams() != nullptr && in_flight_.streams()->release() ? kReleasePeriod : kPeriod;
  try {
    check();
    look();
  } catch (const Error& error) {
    report(error);
  }
  return kPeriod;
}

void DeviceWatch::report(const Error& failure) {
  {
    const std::lock_guard lock(mutex_);
    failure_ = failure;
  }
  in_flight_.stop_kernels();
  on_failure_(failure);
  if (in_flight_.streams() != nullptr) in_flight_.streams()->stop();
}

void DeviceWatch::look() {
  if (health_.is_stopped()) in_flight_.stop_kernels();
  health_.check_kernels();
  Calls calls = membership_.control.calls();
  if (has_moved()) {
    moved_ = std::chrono::steady_clock::now();
    stall_.reset();
    if (in_flight_.idle()) calls.complete(calls.entered(membership_.rank));
    calls.note_motion();
    if (in_flight_.idle()) return DeviceResources::reap();
  }
  check_device();
  calls.note_waits(in_flight_.take_waits());
  health_.check(waited());
  stall_.check(
      membership_.rank, std::chrono::duration_cast<std::chrono::milliseconds>(waited()),
      [&] { return in_flight_.text(); }, nullptr, in_flight_.timeout_ms());
}

// Also true if nothing is in flight.
bool DeviceWatch::has_moved() {
  const device::u64 finished = in_flight_.finished();
  const device::u64 progress = in_flight_.streams() != nullptr ? in_flight_.streams()->progress() : 0;
  const bool moved = in_flight_.idle() || finished != finished_seen_ || progress != progress_seen_;
  finished_seen_ = finished;
  progress_seen_ = progress;
  return moved;
}

void DeviceWatch::check_device() {
  if (waited() < kAtRest || !loss_.ask() || loss_.is_end_of_process()) return;
  fail(ErrorCode::device_error,
       "rank {}: device {} runs nothing any more ({}), found while in {}: some kernel of this process went wrong there "
       "(compute-sanitizer tells which, or CUDA_LAUNCH_BLOCKING=1); destroy the communicator and end the process",
       membership_.rank, membership_.on_device->device.ordinal, loss_.text(), in_flight_.text());
}

void DeviceWatch::launching_in_stream(device::u64 sequence) {
  StreamWatch& streams = *in_flight_.streams();
  if (streams.begin(static_cast<std::uint32_t>(sequence))) return;
  check();  // throws this rank's own failure first
  const Rank peer = streams.stopping_peer();
  if (peer >= 0) check_fault(peer);
  fail(ErrorCode::remote_error,
       "rank {} stopped before this call of rank {}: look at that rank's output, then abort this "
       "communicator and make a new one",
       peer, membership_.rank);
}

bool DeviceWatch::settle_streams(std::chrono::steady_clock::time_point limit, Peers peers) {
  StreamWatch& streams = *in_flight_.streams();
  const bool watching = watching_here == this;
  if (watching) streams.stop();
  const auto at_rest = [&] {
    const bool releasing = watching && streams.release();
    return !releasing && !streams.busy() && (peers == Peers::ignored || !streams.others_busy());
  };
  while (!at_rest()) {
    if (std::chrono::steady_clock::now() >= limit) return false;
    std::this_thread::sleep_for(kReleasePeriod);
  }
  return true;
}

}  // namespace sccl::runtime
