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
//   ------------------------------- all ranks are here -------------------------------
//   kernel: sends 16 messages through four slots in b's memory, and takes as many from b: the same there
//   ------------------------------- all ranks are here -------------------------------
//   compares what came; clears its rings
//
// The second part is what messages of a call are: flags and tails that two kernels see of each other while both run.
// Memory that shows a kernel only what was there when it began (coarse-grained memory of AMD's devices, some buses)
// passes the first part and not this one.
//
// One kernel for each peer and part, all at once, each of them that which moves data later; one that has not ended in
// time counts against its pair only. Kernels of the second part are told to stop then.
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
