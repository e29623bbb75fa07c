// Windows and one-sided transfers: data written into a peer's window, and signals.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/call/stop.h"
#include "runtime/call/window.h"
#include "runtime/control/control_all_gather.h"
#include "runtime/membership/membership.h"

namespace sccl::runtime {

class DeviceExecutor;
class NetTransport;
class RemotePuts;
struct WindowRecord;

// The windows and signals of one rank. Any thread may look up windows and registrations. The other functions are for
// the thread that makes calls.
class OneSided {
 public:
  // All arguments must outlive this object. `device` is null on the host platform. On devices abort ends the exchange
  // of descriptors. `net`: the transport to ranks of other hosts; null if there are none.
  OneSided(const Membership& membership, ControlAllGather& control_all_gather, DeviceExecutor* device,
           NetTransport* net, const StopFlags& stop);
  ~OneSided();

  // Collective. Null if ranks, or their kernels, cannot write into one another's memory; one line of the log says why.
  // Throws invalid_argument when the ranks' sizes differ.
  const Window* register_window(void* base, std::size_t bytes, WindowUse use);
  // Both throw invalid_usage for a window that is not registered.
  void deregister_window(const Window* window);
  const Window& window(const Window* handle) const;
  bool has(const Window* window) const;

  // Engines between hosts may send from registered buffers. The handles are kept to detect a wrong handle.
  void* register_buffer(void* base, std::size_t bytes);
  void deregister_buffer(void* handle);

  // Host platform only. When put() returns, the data may change. The peer sees the signal after the data: at once on
  // this host; a rank of another host when they have arrived there, whether it makes calls or not.
  void put(const PutRequest& request);

  // Host platform only. Returns when all signals have arrived, and consumes them. Throws the errors of
  // ControlAllGather.
  void wait(std::span<const SignalWait> waits);

  void check(const SignalAddress& address) const;

  // When this returns, no peer writes into windows of this rank any more.
  void give_windows_back();

 private:
  std::vector<WindowRecord> exchange_records(Window& window);
  std::shared_ptr<void> hold_memory(const Window& window) const;
  const Window* register_over_hosts(std::unique_ptr<Window> window, std::span<const WindowRecord> records);
  const Window* add(std::unique_ptr<Window> window);
  void put_over_hosts(const PutRequest& request);
  void signal(const SignalAddress& to);
  int write(Rank rank, std::uint64_t address, std::span<const std::byte> data) const;
  void check_usable(Rank peer, const char* purpose) const;
  [[noreturn]] void fail_left(Rank rank) const;
  [[noreturn]] void fail_unknown(const Window* window) const;
  std::uint64_t arrived(const SignalAddress& from) const;

  const Membership& membership_;
  ControlAllGather& control_all_gather_;
  DeviceExecutor* device_;
  NetTransport* const net_;                   // null if all ranks are on one host
  const std::unique_ptr<RemotePuts> remote_;  // likewise
  const StopFlags& stop_;
  std::uint32_t next_window_ = 1;
  std::atomic<bool> had_windows_{false};  // orders nothing else
  std::vector<std::uint64_t> used_;       // how many signals wait() has consumed, by peer, signal and context
  mutable std::mutex mutex_;              // guards windows_ and buffers_
  std::map<const Window*, std::unique_ptr<Window>> windows_;
  std::map<void*, std::unique_ptr<std::pair<void*, std::size_t>>> buffers_;
};

}  // namespace sccl::runtime
