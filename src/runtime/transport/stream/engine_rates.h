// Measures whether copy engines move large data faster than kernels (SCCL_COPY_ENGINE_BYTES=auto).
//
// Rank 0 measures while the communicator is made, before any call. It copies between the memory of its own device and
// the memory of one peer of each kind; all ranks take the result. The measurement copies zeros onto zeros, in memory
// that the ranks share anyway and do not use yet. It compares the copies that a call would make: engines copy into the
// peer's slots and out of them; kernels do the same, or copy once in place.
//
//              into the peer's slots     out of the slots
//   engines    all bytes, copied         all bytes on one device, else the last slice: the other slices overlap
//   kernels    all bytes, one launch     all bytes on one device through slots, else nothing
//
// The device's events measure the times. The budget is measured time, too: a slow machine measures fewer sizes, but
// measures each size equally well.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/transport/p2p/device_membership.h"

namespace sccl::runtime {

enum class PairKind : std::uint8_t { same_device, peer_device };

struct EngineTimes {
  std::size_t bytes = 0;
  double engine_us = 0;
  double kernel_us = 0;
};

// The least measured size from which engines are clearly faster, at that size and all larger ones; 0: there is none.
std::size_t engines_pay_from(std::span<const EngineTimes> ascending);

struct EnginePair {
  PairKind kind = PairKind::same_device;
  Rank peer = 0;
  std::string text;  // names all that the times depend on
};

// In ascending order of sizes. Few or no sizes if the memory or the budget is small. Throws device_error.
std::vector<EngineTimes> measure_engines(const DeviceMembership& devices, Rank rank, const EnginePair& pair);

// The result for all pairs. Reads times from SCCL_CACHE_DIR, or measures and keeps them there. Called by one rank,
// which logs the result in one line.
std::size_t engines_pay_from(const DeviceMembership& devices, Rank rank, std::span<const EnginePair> pairs);

// A pair of each kind between `rank` and its peers. `ids`: by rank.
std::vector<EnginePair> engine_pairs(const DeviceMembership& devices, Rank rank,
                                     std::span<const gpu::UniqueDeviceId> ids);

// The content of a file of measured times. engine_times_from() returns nothing for a malformed text or another pair's.
std::string to_text(const EnginePair& pair, std::span<const EngineTimes> times);
std::vector<EngineTimes> engine_times_from(const EnginePair& pair, const std::string& text);

}  // namespace sccl::runtime
