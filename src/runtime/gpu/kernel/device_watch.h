// What the host sees of running kernels: a thread looks at their words and at the peers, tells kernels to stop when
// what they wait for will not come, and says why.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "kernels/gpu/arguments.h"
#include "runtime/call/stop.h"
#include "runtime/gpu/resources/device_resources.h"
#include "runtime/gpu/stream/stream_watch.h"
#include "runtime/membership/membership.h"
#include "runtime/waiting/stall_watch.h"

namespace sccl::runtime {

class DeviceWatch {
 public:
  // All must outlive it.
  DeviceWatch(Membership& membership, DeviceResources& resources, const StopFlags& stop,
              std::function<void(const Error&)> on_failure);
  ~DeviceWatch();
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

  void stop_kernels() noexcept;

  // Returns when the thread has ended: nothing is told to the owner after this.
  void end() noexcept;

  // A kernel of this number was enqueued, or none of a number: of a graph.
  void launched(device::u64 sequence) { launched_.store(sequence, std::memory_order_release); }
  // The same of a call that streams order. Throws when a peer's calls are being ended.
  void launching_in_stream(device::u64 sequence);
  // It could not be enqueued.
  void not_launched(device::u64 sequence) { streams_->take_back(static_cast<std::uint32_t>(sequence)); }
  // Returns true when this rank's streams are at rest, after a failure that its peers can see, or an abort; false when
  // `limit` comes first. `peers`: they may write into this rank's windows, so their streams must be at rest, too.
  enum class Peers : std::uint8_t { ignored, at_rest };
  bool settle_streams(std::chrono::steady_clock::time_point limit, Peers peers);
  void launched_one_sided(device::u64 sequence) { one_sided_.store(sequence, std::memory_order_relaxed); }
  // Everything enqueued has ended, as far as the host knows.
  bool idle() const;
  bool stopping() const;
  // An event of the device that may be asked about, until null is given. A device on which some kernel went wrong
  // answers every call with an error from then on, and nothing that was launched ends.
  void watch_device(void* event);
  bool device_is_lost();
  // As far as is known.
  bool known_lost() const { return lost_.load(std::memory_order_acquire) != 0; }
  // A kernel has ended early.
  bool kernel_was_stopped() const { return read(resources_.words().stopped) != 0; }
  // Throws what has gone wrong.
  void check() const;
  // Throws what a peer has published of its own failure.
  void check_fault(Rank rank) const { membership_.control.health().check_fault(rank); }

 private:
  void run();
  void look();
  void check_device();
  void check_kernels();
  void check_streams();
  void check_peers();
  bool still_awaits(Rank rank);
  void check_same_calls(Rank peer) const;
  void check_follower() const;
  [[noreturn]] void fail_mismatch(Rank peer) const;
  [[noreturn]] void fail_stopped() const;
  std::string waiting_text() const;
  Rank awaited() const;
  std::vector<LaneWait> waits();
  std::chrono::steady_clock::duration waited() const { return std::chrono::steady_clock::now() - moved_; }
  device::u64 read(const device::u64& word) const { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }

  Membership& membership_;
  DeviceResources& resources_;
  const StopFlags& stop_;
  Rank asked_about_ = -1;  // see still_awaits
  std::function<void(const Error&)> on_failure_;
  std::optional<StreamWatch> streams_;
  std::atomic<device::u64> launched_{0};
  std::atomic<device::u64> one_sided_{0};  // the number of the last kernel that was one, for texts
  device::u64 finished_seen_ = 0;
  device::u64 progress_seen_ = 0;  // of streams
  std::chrono::steady_clock::time_point moved_ = std::chrono::steady_clock::now();
  std::optional<std::chrono::steady_clock::time_point> stopped_since_;  // by a peer that has not said why
  StallWatch stall_;
  std::atomic<gpu::Status> lost_{0};  // what the driver answers

  std::mutex event_mutex_;  // guards what follows
  void* event_ = nullptr;

  mutable std::mutex mutex_;  // guards what follows
  std::optional<Error> failure_;
  std::condition_variable wake_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace sccl::runtime
