// What a copy between two processes costs: a copy by the system from memory to memory (process_vm_readv), or a copy
// through a slot that one process writes and the other reads. The result depends on the processor, the system and the
// cores of the two processes: for 64 KiB the system takes 0.6 of the time through slots on some machines and more than
// all of it on others. So two ranks of a communicator measure both at init.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace sccl::runtime {

// For 64 KiB that each rank sends to the other at the same time, on two cores; zeros: not measured.
struct CopyTimes {
  double slots_us = 0;
  double system_us = 0;
};

// Combines the measurements of both ranks. The margin excludes chance.
inline bool system_pays(const CopyTimes& one, const CopyTimes& other) {
  if (one.slots_us <= 0 || other.slots_us <= 0) return false;
  return one.system_us + other.system_us < 0.85 * (one.slots_us + other.slots_us);
}

// Shared memory of two ranks, kComparisonBytes in each direction, zero at first: this rank writes `outgoing` and reads
// `incoming`.
inline constexpr std::size_t kComparisonBytes = 128 * 1024;
struct ComparisonMemory {
  void* outgoing;
  void* incoming;
};

// Both ranks call this, exactly one of them with `steps_aside`: its thread leaves the peer's core until the measurement
// ends. Returns nothing when the peer does not take part within some milliseconds, when both ranks may run on one core
// only, or when the peer's memory cannot be read. Afterwards this rank no longer touches the memory.
std::optional<CopyTimes> measure_copies(const ComparisonMemory& memory, int peer_process, bool steps_aside);

}  // namespace sccl::runtime
