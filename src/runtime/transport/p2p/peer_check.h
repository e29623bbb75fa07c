// Checks peer access by moving data both ways. A driver may report access although an IOMMU or PCIe's access control
// sends the writes elsewhere.
//
//   rank a                                              rank b
//   puts a pattern for b into its own memory            puts a pattern for a into its own memory
//   ------------------------------------- barrier -------------------------------------
//   kernel: writes a pattern into b's memory,           kernel: the same with a's memory
//           fetches b's pattern for a
//   ------------------------------------- barrier -------------------------------------
//   compares the written and the fetched pattern        compares
//
//   ------------------------------------- barrier -------------------------------------
//   kernel: sends 16 messages through four slots        kernel: the same with a
//           in b's memory, receives 16 from b
//   ------------------------------------- barrier -------------------------------------
//   compares the received data; clears its rings        compares and clears
//
// The second part tests the messages of a call: two running kernels must see each other's flags and tails. Some memory
// shows a kernel only the data from before the kernel began (coarse-grained memory of AMD's devices, some buses). Such
// memory passes the first part and fails the second.
//
// Each part launches one kernel per peer, all at the same time. They are the kernels that move data in calls. A kernel
// that has not ended in time makes only its own pair fail. In the second part all kernels are then told to stop.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <vector>

#include "runtime/transport/p2p/device_membership.h"

namespace sccl::runtime {

// A good path takes a few milliseconds. All ranks stop waiting for a hanging path after this time.
inline constexpr std::chrono::milliseconds kPeerCheckLimit{3000};

// Returns this rank's verdicts in the order of `peers`. `all` and `layout` are those of DeviceMembership; the check
// writes into slots of the first channel. `barrier` returns when all ranks have called it, and throws the error of a
// rank that failed.
std::vector<PathVerdict> check_peers(const gpu::Device& device, const DeviceLayout& layout, Rank rank,
                                     std::span<const Rank> peers, const std::vector<DevicePeer>& all,
                                     const std::function<void()>& barrier);

}  // namespace sccl::runtime
