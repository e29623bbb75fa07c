// Offsets within the memory that a rank shares on its device, the same at every rank. In this order: the words that
// stop the rank's kernels; the counters of one-sided signals; a ring for every channel, kind of call and sender; the
// slots of these rings; and, if all links keep lines whole, slots of lines for every channel and sender.
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
  // 0 if the ring has no slots of lines.
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

// SCCL_DEVICE_MEM_LIMIT: how much memory a rank may share on its device.
std::size_t device_memory_limit_bytes();

// One channel for each of `blocks`, which all ranks of a device can run at once. To fit the memory, slots shrink first,
// then the number of channels.
DeviceLayout fit_layout(int ranks, int blocks, std::size_t memory_limit, LineSlots lines = LineSlots::none);

}  // namespace sccl::runtime
