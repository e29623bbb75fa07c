#include "runtime/transport/p2p/device_layout.h"

#include <algorithm>

#include "base/round_up.h"
#include "base/settings/env.h"

namespace sccl::runtime {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr int kMostChannels = 64;
constexpr std::size_t kLeastSlotBytes = 16 * 1024;
constexpr std::size_t kMostSlotBytes = 256 * 1024;
constexpr std::int64_t kDefaultMemoryLimit = 256ll << 20;

}  // namespace

DeviceLayout::DeviceLayout(int ranks, int channels, std::size_t slot_bytes, LineSlots lines)
    : ranks_(ranks), channels_(channels), slot_bytes_(slot_bytes), lines_(lines) {
  const std::size_t rings = index(channels, 0, 0);
  signals_offset_ = round_up(sizeof(device::gpu::Control), kPageBytes);
  rings_offset_ = round_up(signals_offset_ + static_cast<std::size_t>(ranks) * MemoryLayout::kSignals *
                                                 MemoryLayout::kContexts * sizeof(device::u64),
                           kPageBytes);
  payloads_offset_ = round_up(rings_offset_ + rings * sizeof(device::Ring), kPageBytes);
  lines_offset_ = payloads_offset_ + rings * device::kSlotCount * slot_bytes;
  const std::size_t line_rings = has_lines() ? static_cast<std::size_t>(channels * ranks) : 0;
  total_bytes_ = lines_offset_ + line_rings * device::kLineRingBytes;
}

gpu::Address DeviceLayout::signal(gpu::Address base, Rank source, int signal, int context) const {
  const int index = (source * MemoryLayout::kSignals + signal) * MemoryLayout::kContexts + context;
  return base + signals_offset_ + static_cast<std::size_t>(index) * sizeof(device::u64);
}

gpu::Address DeviceLayout::ring(gpu::Address base, int channel, int kind, Rank source) const {
  return base + rings_offset_ + index(channel, kind, source) * sizeof(device::Ring);
}

gpu::Address DeviceLayout::payload(gpu::Address base, int channel, int kind, Rank source) const {
  return base + payloads_offset_ + index(channel, kind, source) * device::kSlotCount * slot_bytes_;
}

gpu::Address DeviceLayout::lines(gpu::Address base, int channel, int kind, Rank source) const {
  if (!has_lines() || kind != static_cast<int>(MemoryLayout::RingKind::collective)) return 0;
  return base + lines_offset_ + static_cast<std::size_t>(channel * ranks_ + source) * device::kLineRingBytes;
}

std::size_t device_memory_limit_bytes() {
  return static_cast<std::size_t>(
      env::number("SCCL_DEVICE_MEM_LIMIT", kDefaultMemoryLimit, 1 << 20, std::int64_t{1} << 40));
}

DeviceLayout fit_layout(int ranks, int blocks, std::size_t memory_limit, LineSlots lines) {
  int channels = std::clamp(blocks, 1, kMostChannels);
  std::size_t slot_bytes = kMostSlotBytes;
  while (DeviceLayout(ranks, channels, slot_bytes, lines).total_bytes() > memory_limit) {
    if (slot_bytes > kLeastSlotBytes)
      slot_bytes /= 2;
    else if (channels > 1)
      channels /= 2;
    else
      break;
  }
  return {ranks, channels, slot_bytes, lines};
}

}  // namespace sccl::runtime
