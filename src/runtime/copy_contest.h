// What a copy between two processes costs: by the system, from memory to memory (process_vm_readv), or through a slot,
// written by one and read by the other. It depends on the processor, the system and the cores on which the two run: with
// 64 KiB the system takes 0.6 of the other's time on some machines and more than all of it on others. So the two ranks of
// a communicator measure it when they meet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace sccl::runtime {

// Of 64 KiB that each sends the other at the same time.
struct CopyTimes {
  double slots_us = 0;
  double system_us = 0;

  // By so much that it is no chance.
  bool system_pays() const { return system_us < 0.85 * slots_us; }
};

// Shared memory of two ranks, of kContestBytes each, at first zero: what this one writes and the other reads, and the
// other way round.
inline constexpr std::size_t kContestBytes = 128 * 1024;
struct ContestMemory {
  void* outgoing;
  void* incoming;
};

// Called by both. Nothing when the peer does not come along within some milliseconds, or its memory cannot be read;
// afterwards this rank touches the memory no more.
std::optional<CopyTimes> measure_copies(const ContestMemory& memory, int peer_process);

}  // namespace sccl::runtime
