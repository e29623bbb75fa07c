// Windows, and transfers in which only one side takes part: data written into a peer's window, and signals.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/call/window.h"
#include "runtime/control/control_all_gather.h"
#include "runtime/membership/membership.h"

namespace sccl::runtime {

class DeviceExecutor;

// One rank's. Windows and registrations may be looked up by any thread, the rest is for the thread that makes calls.
class OneSided {
 public:
  // All must outlive it. `device` is null on the host platform; `abort` ends the exchange of ranks there.
  OneSided(const Membership& membership, ControlAllGather& control_all_gather, DeviceExecutor* device,
           const std::atomic<bool>& abort);

  // Collective; null, with one line that says why, where ranks, or their kernels, cannot write into one another's
  // memory. Throws invalid_argument when the ranks' sizes differ.
  const Window* register_window(void* base, std::size_t bytes, WindowUse use);
  void deregister_window(const Window* window);      // invalid_usage for one that is not registered
  const Window& window(const Window* handle) const;  // the same

  // Registration of a buffer gains nothing on the host platform; the handles are kept so that a wrong one is noticed.
  void* register_buffer(void* base, std::size_t bytes);
  void deregister_buffer(void* handle);

  // Complete when it returns: the peer can read the data, and sees the signal after it. Of the host platform.
  void put(const PutRequest& request);

  // Returns when all signals have come; they are used up then. Throws as ControlAllGather does. Of the host platform.
  void wait(std::span<const SignalWait> waits);

  void check(const SignalAddress& address) const;

  // Whether peers may have written into memory of this rank.
  bool had_windows() const { return had_windows_.load(std::memory_order_relaxed); }

 private:
  const Window* add(std::unique_ptr<Window> window);
  void signal(const SignalAddress& to);
  int write(Rank rank, std::uint64_t address, std::span<const std::byte> data) const;
  [[noreturn]] void fail_left(Rank rank) const;
  std::uint64_t arrived(const SignalAddress& from) const;

  const Membership& membership_;
  ControlAllGather& control_all_gather_;
  DeviceExecutor* device_;
  const std::atomic<bool>& abort_;
  std::uint32_t next_window_ = 1;
  std::atomic<bool> had_windows_{false};  // orders nothing else
  std::vector<std::uint64_t> used_;       // signals that wait() has used up, by peer, signal and context
  mutable std::mutex mutex_;              // guards what follows
  std::map<const Window*, std::unique_ptr<Window>> windows_;
  std::map<void*, std::unique_ptr<std::pair<void*, std::size_t>>> buffers_;
};

}  // namespace sccl::runtime
