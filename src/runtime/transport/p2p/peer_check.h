// Peer access is believed after data went both ways: a driver may claim it where an IOMMU or PCIe's access control
// sends writes elsewhere.
//
//   rank a                                              rank b
//   puts a pattern for b into its own memory            puts one for a into its own
//   ------------------------------- all ranks are here -------------------------------
//   kernel: writes a pattern into b's memory,           kernel: the same with a's memory
//           fetches b's pattern for a
//   ------------------------------- all ranks are here -------------------------------
//   compares what b wrote and what it fetched           compares
//
// One kernel for each peer, all at once, each of them that which moves data later; one that has not ended in time
// counts against its pair only.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <vector>

#include "runtime/transport/p2p/device_membership.h"

namespace sccl::runtime {

// A sound path takes a few milliseconds. One that hangs is given up after this, on each rank at the same time.
inline constexpr std::chrono::milliseconds kPeerCheckLimit{1000};

// The verdicts of this rank about `peers`, in their order. `memory` and `layout` as in DeviceMembership: slots of the
// first channel are written. `barrier` returns when all ranks have called it, and throws what another rank failed with.
std::vector<PathVerdict> check_peers(const gpu::Device& device, const DeviceLayout& layout, Rank rank,
                                     std::span<const Rank> peers, const std::vector<DevicePeer>& all,
                                     const std::function<void()>& barrier);

}  // namespace sccl::runtime
