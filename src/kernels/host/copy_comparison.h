// What a copy between two processes costs: by the system, from memory to memory (process_vm_readv), or through a slot,
// written by one and read by the other. It depends on the processor, the system and the cores on which the two run:
// with 64 KiB the system takes 0.6 of the other's time on some machines and more than all of it on others. So the two
// ranks of a communicator measure it at init.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace sccl::runtime {

// Of 64 KiB that each sends the other at the same time, on two cores; zeros: not measured.
struct CopyTimes {
  double slots_us = 0;
  double system_us = 0;
};

// What both ranks measured: by so much that it is no chance.
inline bool system_pays(const CopyTimes& one, const CopyTimes& other) {
  if (one.slots_us <= 0 || other.slots_us <= 0) return false;
  return one.system_us + other.system_us < 0.85 * (one.slots_us + other.slots_us);
}

// Shared memory of two ranks, of kComparisonBytes each, at first zero: what this one writes and the other reads, and
// the other way round.
inline constexpr std::size_t kComparisonBytes = 128 * 1024;
struct ComparisonMemory {
  void* outgoing;
  void* incoming;
};

// Called by both, by one of them with `steps_aside`: it leaves the core that the other runs on, too, until the
// measurement ends. Nothing when the peer does not come along within some milliseconds, when both may run on one core
// only, or when the peer's memory cannot be read; afterwards this rank touches the memory no more.
std::optional<CopyTimes> measure_copies(const ComparisonMemory& memory, int peer_process, bool steps_aside);

}  // namespace sccl::runtime
