// Takes a rank's buffers back when the rank fails, and keeps kernels away from buffers that a peer has taken back
// (transport/p2p/device_neighbour.h has the protocol).
#pragma once

#include <atomic>
#include <chrono>

#include "runtime/gpu/watch/device_watch.h"
#include "runtime/membership/membership.h"

namespace sccl::runtime {

class BufferWithdrawal {
 public:
  // Both must outlive this object.
  BufferWithdrawal(Membership& membership, DeviceWatch& watch);

  // From now on peers' kernels may use this rank's buffers in place (lend_buffers), or peers may write into this rank's
  // windows (lend_windows). Both stores pair with withdraw().
  void lend_buffers() { lends_buffers_.store(true, std::memory_order_release); }
  void lend_windows() { lends_windows_.store(true, std::memory_order_relaxed); }

  // Throws if a peer has taken its buffers back: a kernel could still find their addresses in its rings, and a put
  // could find them in windows. Legal once the peers can see that a call of this rank is in flight.
  void refuse_after_withdrawal() const;

  // Takes this rank's buffers back: returns when no peer's kernel and no released stream uses them, or after a time
  // longer than any such use. May be called by any thread, more than once.
  void withdraw() noexcept;

 private:
  // A rank of another host uses no buffers of this rank.
  bool shares_words(Rank rank) const {
    return membership_.on_device->peers[static_cast<std::size_t>(rank)].words != nullptr;
  }
  NeighbourWords& words(Rank rank) const { return *membership_.on_device->peers[static_cast<std::size_t>(rank)].words; }
  void await_kernel_of(Rank peer, std::chrono::steady_clock::time_point limit) const;

  Membership& membership_;
  DeviceWatch& watch_;
  std::atomic<bool> lends_buffers_;
  std::atomic<bool> lends_windows_{false};
};

}  // namespace sccl::runtime
