#include "runtime/gpu/kernel/device_watch.h"

#include <algorithm>
#include <utility>

#include "base/os/thread.h"
#include "runtime/call/signature.h"

namespace sccl::runtime {
namespace {

using device::gpu::StopReason;

constexpr std::chrono::milliseconds kPeriod{10};
constexpr std::chrono::milliseconds kReleasePeriod{1};
// A peer that has left may have sent everything before: what is under way gets this long to arrive.
constexpr std::chrono::milliseconds kDepartedWaitLimit{1000};
// What a kernel waits for may have been sent already.
constexpr std::chrono::milliseconds kFollowerWaitLimit{300};
// What has not gone on for so long is looked at closely.
constexpr std::chrono::milliseconds kAtRest{50};

// The driver's numbers: of a context that is no more, and of what captures forbid.
constexpr gpu::Status kContextDestroyed = 709;
constexpr gpu::Status kFirstOfCaptures = 900, kLastOfCaptures = 908;

// Streams are released by the thread that watches; others wait for it.
thread_local const DeviceWatch* watching_here = nullptr;

}  // namespace

DeviceWatch::DeviceWatch(Membership& membership, DeviceResources& resources, const StopFlags& stop,
                         std::function<void(const Error&)> on_failure)
    : membership_(membership), resources_(resources), stop_(stop), on_failure_(std::move(on_failure)) {
  if (resources_.membership().streams) streams_.emplace(membership_, *resources_.membership().streams);
  thread_ = start_thread([this] { run(); });
}

DeviceWatch::~DeviceWatch() { end(); }

void DeviceWatch::end() noexcept {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// Pairs with the look of kernels/gpu/block.h.
void DeviceWatch::stop_kernels() noexcept { __atomic_store_n(&resources_.words().stop, 1, __ATOMIC_RELEASE); }

bool DeviceWatch::stopping() const {
  return read(resources_.words().stop) != 0 || read(resources_.words().stopped) != 0;
}

bool DeviceWatch::idle() const {
  const auto& words = resources_.words();
  // A kernel that found another one running is gone without having begun.
  const bool overlapped = read(words.stopped) == static_cast<device::u64>(StopReason::overlap);
  return read(words.finished) == read(words.began) && !(streams_ && streams_->busy()) &&
         (overlapped || read(words.finished_sequence) >= launched_.load(std::memory_order_acquire));
}

void DeviceWatch::launching_in_stream(device::u64 sequence) {
  if (streams_->begin(static_cast<std::uint32_t>(sequence))) return;
  check();  // of this rank
  const Rank peer = streams_->stopping_peer();
  if (peer >= 0) membership_.control.health().check_fault(peer);
  fail(ErrorCode::remote_error,
       "rank {} stopped before this call of rank {}: look at that rank's output, then abort this "
       "communicator and make a new one",
       peer, membership_.rank);
}

void DeviceWatch::watch_device(void* event) {
  const std::lock_guard lock(event_mutex_);
  event_ = event;
}

bool DeviceWatch::device_is_lost() {
  if (known_lost()) return true;
  const std::lock_guard lock(event_mutex_);
  if (event_ == nullptr) return false;
  const gpu::Driver& driver = *resources_.membership().device.driver;
  gpu::Status status = 0;
  try {
    const gpu::Current current(resources_.membership().device);
    const gpu::RelaxedCapture relaxed(driver);
    status = driver.event_query(event_);
  } catch (const Error&) {
    status = kContextDestroyed;
  }
  if (status == 0 || status == gpu::kNotReady || (status >= kFirstOfCaptures && status <= kLastOfCaptures))
    return false;
  lost_.store(status, std::memory_order_release);
  const DeviceMembership& devices = resources_.membership();
  devices.peers[static_cast<std::size_t>(membership_.rank)].words->lost.store(1, std::memory_order_release);
  return true;
}

void DeviceWatch::check_device() {
  if (waited() < kAtRest || !device_is_lost()) return;
  const gpu::Device& device = resources_.membership().device;
  fail(ErrorCode::device_error,
       "rank {}: device {} runs nothing any more ({}), found while in {}: some kernel of this process went wrong there "
       "(compute-sanitizer tells which, or CUDA_LAUNCH_BLOCKING=1); destroy the communicator and end the process",
       membership_.rank, device.ordinal, device.driver->error_text(lost_.load(std::memory_order_relaxed)),
       waiting_text());
}

void DeviceWatch::check() const {
  const std::lock_guard lock(mutex_);
  if (failure_) throw Error(*failure_);
}

bool DeviceWatch::settle_streams(std::chrono::steady_clock::time_point limit, Peers peers) {
  const bool watching = watching_here == this;
  if (watching) streams_->stop();
  const auto at_rest = [&] {
    const bool releasing = watching && streams_->release();
    return !releasing && !streams_->busy() && (peers == Peers::ignored || !streams_->others_busy());
  };
  while (!at_rest()) {
    if (std::chrono::steady_clock::now() >= limit) return false;
    std::this_thread::sleep_for(kReleasePeriod);
  }
  return true;
}

void DeviceWatch::run() {
  watching_here = this;
  bool releasing = false;
  std::unique_lock lock(mutex_);
  while (!ending_) {
    wake_.wait_for(lock, releasing ? kReleasePeriod : kPeriod, [&] { return ending_; });
    if (ending_) continue;
    const bool failed = failure_.has_value();
    lock.unlock();
    if (failed) {
      releasing = streams_ && streams_->release();
      lock.lock();
      continue;
    }
    std::optional<Error> failure;
    try {
      look();
    } catch (const Error& error) {
      failure = error;
    }
    lock.lock();
    if (!failure) continue;
    failure_ = failure;
    lock.unlock();
    stop_kernels();
    on_failure_(*failure);
    if (streams_) streams_->stop();
    lock.lock();
  }
}

void DeviceWatch::look() {
  if (stop_.abort.load(std::memory_order_acquire) || stop_.revoked.load(std::memory_order_acquire)) stop_kernels();
  check_kernels();
  Calls calls = membership_.control.calls();
  const device::u64 finished = read(resources_.words().finished);
  const device::u64 progress = streams_ ? streams_->progress() : 0;
  if (idle() || finished != finished_seen_ || progress != progress_seen_) {
    finished_seen_ = finished;
    progress_seen_ = progress;
    moved_ = std::chrono::steady_clock::now();
    stall_.reset();
    if (idle()) calls.complete(calls.entered(membership_.rank));
    calls.note_motion();
    if (idle()) return DeviceResources::reap();
  }
  check_device();
  calls.note_waits(waits());
  if (streams_ && streams_->busy()) check_streams();
  // Kernels compare what they receive; two that wait for different messages receive nothing.
  else if (waited() >= kAtRest)
    for (Rank peer = 0; peer < membership_.ranks; ++peer) check_same_calls(peer);
  check_peers();
  check_follower();
  stall_.check(membership_.rank, std::chrono::duration_cast<std::chrono::milliseconds>(waited()),
               [&] { return waiting_text(); });
}

// Streams do not look at anything themselves.
void DeviceWatch::check_streams() {
  if (stop_.abort.load(std::memory_order_acquire) || stop_.revoked.load(std::memory_order_acquire)) fail_stopped();
  if (waited() < kAtRest) return;
  for (Rank peer = 0; peer < membership_.ranks; ++peer) check_same_calls(peer);
  if (const Rank peer = streams_->mismatch(); peer >= 0) fail_mismatch(peer);
  if (const Rank peer = streams_->stopping_peer(); peer >= 0) {
    membership_.control.health().check_fault(peer);
    fail(ErrorCode::remote_error, "rank {} stopped while rank {} was in {}: look at that rank's output", peer,
         membership_.rank, waiting_text());
  }
}

// A stream is one lane. The records of kernels are wiped here, so that at the next look only lanes that still wait have
// written theirs.
std::vector<LaneWait> DeviceWatch::waits() {
  std::vector<LaneWait> found;
  const bool in_stream = streams_ && streams_->awaited() >= 0;
  if (!in_stream)
    for (device::u64& word : resources_.words().waits)
      if (const device::u64 packed = __atomic_exchange_n(&word, 0, __ATOMIC_RELAXED); packed != 0)
        found.push_back(LaneWait::unpacked(packed));
  if (const Rank peer = awaited(); found.empty() && peer >= 0) found.push_back({0, 0, peer, 0});
  return found;
}

Rank DeviceWatch::awaited() const {
  const Rank in_stream = streams_ ? streams_->awaited() : -1;
  return in_stream >= 0 ? in_stream : static_cast<Rank>(read(resources_.words().awaited)) - 1;
}

void DeviceWatch::fail_stopped() const {
  fail(ErrorCode::invalid_usage, "rank {} was {} while in {}", membership_.rank,
       stop_.revoked.load(std::memory_order_acquire) ? "revoked" : "aborted", waiting_text());
}

void DeviceWatch::check_kernels() {
  const auto& words = resources_.words();
  const auto reason = static_cast<StopReason>(read(words.stopped));
  const auto peer = static_cast<Rank>(read(words.peer));
  switch (reason) {
    case StopReason::none:
      return;
    case StopReason::host:
      fail_stopped();
    case StopReason::mismatch:
      fail_mismatch(peer);
    case StopReason::peer:
      membership_.control.health().check_fault(peer);
      // It stops its kernels first and says why afterwards.
      if (!stopped_since_) stopped_since_ = std::chrono::steady_clock::now();
      if (std::chrono::steady_clock::now() - *stopped_since_ < kDepartedWaitLimit) return;
      fail(ErrorCode::remote_error, "rank {} stopped while rank {} was in {}: look at that rank's output", peer,
           membership_.rank, waiting_text());
    case StopReason::overlap:
      fail(ErrorCode::invalid_usage,
           "rank {}: two calls of this communicator ran on its device at the same time, one of them from a replayed "
           "graph: order their streams, by events, and replay a graph on one stream at a time",
           membership_.rank);
    case StopReason::unreachable:
      fail(ErrorCode::internal_error, "rank {} cannot reach the memory of rank {} from its kernel: report this",
           membership_.rank, peer);
  }
}

// Two ranks of one thread are easily given one stream. The kernel that comes first waits for the other, which cannot
// begin; nothing else can help when it is that rank's next.
void DeviceWatch::check_follower() const {
  if (waited() < kFollowerWaitLimit) return;
  const auto& peers = membership_.on_device->peers;
  const DevicePeer& own = peers[static_cast<std::size_t>(membership_.rank)];
  const auto follower = own.neighbour->follower();
  if (!follower || own.words->finished() >= follower->own_kernel) return;
  const NeighbourWords& other = *peers[static_cast<std::size_t>(follower->rank)].words;
  if (other.finished() + 1 != follower->its_kernel) return;
  if (static_cast<Rank>(read(resources_.words().awaited)) - 1 != follower->rank) return;
  fail(ErrorCode::invalid_usage,
       "ranks {} and {} use one device and were given one stream, outside of a group: the kernel of rank {} waits for "
       "that of "
       "rank {}, which comes behind it: put the calls of both between ncclGroupStart and ncclGroupEnd, or give each "
       "rank a "
       "stream of its own",
       membership_.rank, follower->rank, membership_.rank, follower->rank);
}

// Throws when the calls differ somewhere among those that have not ended.
void DeviceWatch::check_same_calls(Rank peer) const {
  const Calls calls = membership_.control.calls();
  calls.compare(peer, 1, calls.entered(membership_.rank));
}

void DeviceWatch::fail_mismatch(Rank peer) const {
  check_same_calls(peer);
  fail(
      ErrorCode::invalid_usage,
      "rank {} met a message of another call, or of another size, of rank {}: make the ranks' calls equal, in the same "
      "order, and the counts of Send and Recv; replay captured graphs equally often on all ranks",
      membership_.rank, peer);
}

void DeviceWatch::check_peers() {
  for (Rank rank = 0; rank < membership_.ranks; ++rank) {
    if (rank == membership_.rank) continue;
    const PeerHealth health = membership_.control.health();
    health.check_fault(rank);
    const Presence presence = health.presence(rank);
    const bool dead = health.has_ended(rank);
    if (presence == Presence::present && !dead) continue;
    if (waited() < kDepartedWaitLimit) continue;
    // One that has gone in peace matters only to who waits for it.
    if (presence == Presence::destroyed && !still_awaits(rank)) continue;
    health.fail_departed(rank, presence, waiting_text());
  }
}

// The kernels' word stays when a wait is over. So it is wiped once, and only who waits all the time writes it again:
// what had been sent before would have been found by then.
bool DeviceWatch::still_awaits(Rank rank) {
  if (streams_ && streams_->awaited() >= 0) return streams_->awaited() == rank;
  if (std::exchange(asked_about_, rank) == rank) return awaited() == rank;
  __atomic_store_n(&resources_.words().awaited, 0, __ATOMIC_RELAXED);
  return false;
}

std::string DeviceWatch::waiting_text() const {
  const Calls calls = membership_.control.calls();
  const std::uint64_t sequence = calls.entered(membership_.rank);
  CallSignature call;
  const bool known = calls.read(membership_.rank, sequence, call);
  const device::u64 running = read(resources_.words().finished_sequence) + 1;
  const bool one_sided =
      streams_ && streams_->busy() ? streams_->awaits_signal() : running == one_sided_.load(std::memory_order_relaxed);
  std::string text = one_sided ? "PutSignal, Signal or WaitSignal on its device"
                     : known   ? fmt::format("{} as call {}", call.text(), sequence)
                               : "a call on its device";
  if (const Rank peer = awaited(); peer >= 0) text += fmt::format(", waiting for rank {}", peer);
  return text;
}

}  // namespace sccl::runtime
