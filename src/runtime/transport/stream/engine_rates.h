// Whether copy engines move large data faster than kernels do, measured where nobody has told
// (SCCL_COPY_ENGINE_BYTES=auto).
//
// Rank 0 measures when a communicator is made, before any call, between its own device's memory and that of one peer of
// each kind there is; all ranks take its result. Zeros are copied onto zeros, in memory that the ranks share anyway and
// nobody uses yet. What is compared is what a call would do: through slots engines copy twice, kernels once in place or
// twice too.
//
//              into the peer's slots        out of them
//   engines    copy of all                  all where both are one device's, else the last slice: the rest overlaps
//   kernels    launch of all                all through slots of one device; nothing in place
//
// Times are events' of the device. The budget is measured time too, so a slow machine measures fewer sizes, not
// wrongly.
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

// From so many bytes on engines are clearly faster, at this size and all larger ones measured; 0: they are not.
std::size_t engines_pay_from(std::span<const EngineTimes> ascending);

struct EnginePair {
  PairKind kind = PairKind::same_device;
  Rank peer = 0;
  std::string text;  // what the times depend on
};

// In ascending order of sizes; fewer, or none, where memory or the budget ends. Throws device_error.
std::vector<EngineTimes> measure_engines(const DeviceMembership& devices, Rank rank, const EnginePair& pair);

// Of all pairs: kept in SCCL_CACHE_DIR, or measured now and kept. For one rank, which tells the result in one line.
std::size_t engines_pay_from(const DeviceMembership& devices, Rank rank, std::span<const EnginePair> pairs);

// A pair of each kind between `rank` and its peers. `ids`: by rank.
std::vector<EnginePair> engine_pairs(const DeviceMembership& devices, Rank rank,
                                     std::span<const gpu::UniqueDeviceId> ids);

// What a file of measured times holds; nothing where the text is of another pair or not understood.
std::string to_text(const EnginePair& pair, std::span<const EngineTimes> times);
std::vector<EngineTimes> engine_times_from(const EnginePair& pair, const std::string& text);

}  // namespace sccl::runtime
