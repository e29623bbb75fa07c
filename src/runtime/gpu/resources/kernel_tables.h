// Tables in device memory that a rank's kernels read: peers' controls, connections, counters of signals.
#pragma once

#include <memory>

#include "kernels/gpu/arguments.h"
#include "platform/gpu/memory.h"
#include "runtime/transport/p2p/device_membership.h"

namespace sccl::runtime {

class KernelTables {
 public:
  // Fills the tables, which never change afterwards. Only kernels change the counters, which begin at zero.
  KernelTables(const DeviceMembership& membership, Rank rank);

  // By rank; null if this device does not reach the peer's memory.
  device::gpu::Control* const* peer_controls() const;
  // The connections of all channels, one channel after another.
  device::gpu::DeviceConnection* connections() const;
  device::u32 connections_per_channel() const { return connections_per_channel_; }

  // Counters of signals that were sent to `peer`, and of signals from `peer` that this rank's waits have used up.
  device::u64* sent(Rank peer, int signal, int context) const { return counter(0, peer, signal, context); }
  device::u64* used(Rank peer, int signal, int context) const { return counter(1, peer, signal, context); }

 private:
  void connect(const DeviceMembership& membership, Rank rank);
  device::u64* counter(int which, Rank peer, int signal, int context) const;

  int ranks_;
  std::shared_ptr<gpu::DeviceMemory> controls_;
  std::shared_ptr<gpu::DeviceMemory> counters_;
  std::shared_ptr<gpu::DeviceMemory> connections_;
  device::u32 connections_per_channel_ = 0;
};

}  // namespace sccl::runtime
