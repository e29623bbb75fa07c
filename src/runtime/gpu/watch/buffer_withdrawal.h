// Takes a rank's buffers back when it fails, and keeps kernels away from those of a peer that has done so
// (transport/p2p/device_neighbour.h has the protocol).
#pragma once

#include <atomic>
#include <chrono>

#include "runtime/gpu/watch/device_watch.h"
#include "runtime/membership/membership.h"

namespace sccl::runtime {

class BufferWithdrawal {
 public:
  // Both must outlive it.
  BufferWithdrawal(Membership& membership, DeviceWatch& watch);

  // From now on peers' kernels may use buffers of this rank in place; or peers write into windows of it.
  // Both stores pair with withdraw().
  void lend_buffers() { lends_buffers_.store(true, std::memory_order_release); }
  void lend_windows() { lends_windows_.store(true, std::memory_order_relaxed); }

  // Throws where a peer has taken its buffers back: a kernel might still find their addresses in its rings, a put in
  // windows. Legal to ask once the peers can see that a call of this rank is in flight.
  void refuse_after_withdrawal() const;

  // Takes this rank's buffers back: returns when no peer's kernel and no stream that was released uses them, or after a
  // time that is too long for one. May be called by any thread, more than once.
  void withdraw() noexcept;

 private:
  NeighbourWords& words(Rank rank) const { return *membership_.on_device->peers[static_cast<std::size_t>(rank)].words; }
  void await_kernel_of(Rank peer, std::chrono::steady_clock::time_point limit) const;

  Membership& membership_;
  DeviceWatch& watch_;
  std::atomic<bool> lends_buffers_;
  std::atomic<bool> lends_windows_{false};
};

}  // namespace sccl::runtime
