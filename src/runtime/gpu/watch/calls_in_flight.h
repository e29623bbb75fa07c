// Which calls of this rank are in flight on its device, and for which ranks they wait. Kernels and streams write this
// into words that the host reads while they run.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/gpu/arguments.h"
#include "runtime/gpu/resources/device_resources.h"
#include "runtime/gpu/stream/stream_watch.h"
#include "runtime/membership/membership.h"

namespace sccl::runtime {

class CallsInFlight {
 public:
  // Both must outlive this object.
  CallsInFlight(Membership& membership, DeviceResources& resources);

  // The kernel of this number is being enqueued; every kernel up to it counts as in flight until it has ended.
  void launched(device::u64 sequence) { launched_.store(sequence, std::memory_order_release); }  // pairs with idle()
  // The kernel of this number is a PutSignal, Signal or WaitSignal; 0: captured.
  void launched_one_sided(device::u64 sequence) { one_sided_.store(sequence, std::memory_order_relaxed); }

  // Until the call of this number has ended, its time limit stands instead of the communicator's.
  void limit_waits(device::u64 sequence, std::int64_t timeout_ms) {
    limit_ms_.store(timeout_ms, std::memory_order_relaxed);
    limited_.store(sequence, std::memory_order_release);  // pairs with timeout_ms()
  }
  // As StallWatch::check takes it.
  std::int64_t timeout_ms() const {
    const device::u64 limited = limited_.load(std::memory_order_acquire);  // pairs with limit_waits()
    return has_ended(limited) ? membership_.timeout_ms : limit_ms_.load(std::memory_order_relaxed);
  }

  // Everything that was enqueued has ended, as far as the host knows.
  bool idle() const;
  // The call of this number has ended, and all before it.
  bool has_ended(device::u64 sequence) const;
  // Makes kernels end soon, whatever they wait for.
  void stop_kernels() noexcept;
  // Whether kernels were told to stop, or a kernel has ended early.
  bool stopping() const;
  bool kernel_was_stopped() const { return stop_reason() != device::gpu::StopReason::none; }
  device::gpu::StopReason stop_reason() const;
  // The rank because of which a kernel ended early.
  Rank stopping_peer() const { return static_cast<Rank>(read(words_.peer)); }
  // How many kernels have ended.
  device::u64 finished() const { return read(words_.finished); }

  // The rank that the kernel, or the stream, waits for; -1: none known.
  Rank awaited() const;
  // Asks kernels for whom they wait: the number of the question. For one thread.
  std::uint32_t ask();
  // Whether a block has looked in vain for a message of that rank since then.
  bool kernel_awaits_since(std::uint32_t question, Rank rank) const;
  // Likewise a block or a stream, since the first call that named the rank. Call it only when no further message of the
  // rank can come: then it never will. For one thread.
  bool awaits_in_vain(Rank rank);
  // The records of waiting lanes. Each call takes the records away. For one thread.
  std::vector<LaneWait> take_waits();
  // For messages: "AllReduce(count=4, float, sum) as call 7, waiting for rank 3".
  std::string text() const;

  // The watch of calls that streams order; null if kernels serve all calls.
  StreamWatch* streams() { return streams_ ? &*streams_ : nullptr; }

 private:
  static device::u64 read(const device::u64& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }
  std::string call_text() const;

  Membership& membership_;
  device::gpu::HostWords& words_;
  std::optional<StreamWatch> streams_;
  std::atomic<device::u64> launched_{0};
  std::atomic<device::u64> limited_{0};
  std::atomic<std::int64_t> limit_ms_{0};
  std::atomic<device::u64> one_sided_{0};  // the number of the last kernel that was one, for texts
  std::uint32_t questions_ = 0;
  std::map<Rank, std::uint32_t> asked_;  // the number of the question about a rank; see awaits_in_vain
};

}  // namespace sccl::runtime
