// Offsets within the memory that a rank shares on its device, the same at every rank: the words that stop its kernels,
// the counters of one-sided signals, then for every channel, kind of call and sender a ring and its slots, and where
// links keep them whole, for every channel and sender slots of lines.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/types.h"
#include "kernels/gpu/arguments.h"
#include "platform/gpu/driver.h"
#include "runtime/transport/shm/memory_layout.h"

namespace sccl::runtime {

enum class LineSlots : std::uint8_t { none, of_collectives };

class DeviceLayout {
 public:
  static constexpr int kKinds = 2;  // collectives and point-to-point transfers, as MemoryLayout::RingKind

  DeviceLayout(int ranks, int channels, std::size_t slot_bytes, LineSlots lines = LineSlots::none);

  std::size_t total_bytes() const { return total_bytes_; }
  std::size_t slot_bytes() const { return slot_bytes_; }
  int channels() const { return channels_; }
  bool has_lines() const { return lines_ != LineSlots::none; }

  gpu::Address control(gpu::Address base) const { return base; }
  // Counts the signals that `source` has sent to the owner of `base`.
  gpu::Address signal(gpu::Address base, Rank source, int signal, int context) const;
  gpu::Address ring(gpu::Address base, int channel, int kind, Rank source) const;
  gpu::Address payload(gpu::Address base, int channel, int kind, Rank source) const;
  // 0 where there are none.
  gpu::Address lines(gpu::Address base, int channel, int kind, Rank source) const;

 private:
  std::size_t index(int channel, int kind, Rank source) const {
    return static_cast<std::size_t>((channel * kKinds + kind) * ranks_ + source);
  }

  int ranks_;
  int channels_;
  std::size_t slot_bytes_;
  std::size_t signals_offset_;
  std::size_t rings_offset_;
  LineSlots lines_;
  std::size_t payloads_offset_;
  std::size_t lines_offset_;
  std::size_t total_bytes_;
};

// SCCL_DEVICE_MEM_LIMIT: what a rank may share on its device.
std::size_t device_memory_limit_bytes();

// As many channels as the blocks of all ranks of a device can run at once, and slots that fit the memory.
DeviceLayout fit_layout(int ranks, int blocks, std::size_t memory_limit, LineSlots lines = LineSlots::none);

}  // namespace sccl::runtime
