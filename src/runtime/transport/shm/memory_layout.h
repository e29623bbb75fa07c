// The layout of a rank's shared memory: the state that peers read (control/state/shared_state.h), a page for ranks on
// devices, the rings and slots through which the rank receives, counters of signals, and the schedule updates.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/types.h"
#include "kernels/device/connection.h"
#include "runtime/control/state/shared_state.h"

namespace sccl::runtime {

// Offsets within a rank's shared memory. They are the same at every rank.
class MemoryLayout {
 public:
  // Short messages of rooted calls use separate deep rings, so a rank that only sends can run ahead by more messages.
  // If all ranks wait for all, a deep ring only spreads the messages over more memory; this is faster for two ranks
  // only.
  enum class RingKind : int { collective = 0, point_to_point = 1, deep = 2 };
  // Deep rings take the most memory, so only communicators of few ranks have them.
  static constexpr bool has_deep(int ranks) { return ranks <= 8; }
  static constexpr int ring_kinds(int ranks) { return has_deep(ranks) ? 3 : 2; }
  static constexpr std::size_t kDeepPart = 4;  // a slot of a deep ring has slot_bytes / kDeepPart
  static constexpr int kSignals = 16;          // one-sided signals that a rank can get from each other rank, by index
  static constexpr int kContexts = 4;
  static constexpr std::size_t kDevicePageBytes = 4096;

  // The size of all slots of a rank, in units of slot_bytes.
  static std::size_t slots(int ranks);

  // `schedule_updates_bytes`: ScheduleUpdates::kBytes if there can be schedule updates, else 0.
  // `arrival_bytes`: of each of the two areas for reductions by the ranks that are there
  // (kernels/host/arrival/arrival_reduction.h), or 0.
  MemoryLayout(int ranks, std::size_t slot_bytes, std::size_t schedule_updates_bytes = 0,
               std::size_t arrival_bytes = 0);

  std::size_t total_bytes() const { return total_bytes_; }
  std::size_t slot_bytes(RingKind kind = RingKind::collective) const {
    return kind == RingKind::deep ? slot_bytes_ / kDeepPart : slot_bytes_;
  }
  static device::u32 depth(RingKind kind) { return kind == RingKind::deep ? device::kMostDepth : device::kSlotCount; }
  static device::u32 inline_lines(RingKind kind) {
    return kind == RingKind::deep ? device::kDeepInlineLines : device::kInlineLines;
  }
  static device::u32 inline_message_bytes(RingKind kind) {
    return kind == RingKind::deep ? device::kDeepInlineMessageBytes : device::kInlineMessageBytes;
  }
  SharedState& state(std::byte* base) const { return *reinterpret_cast<SharedState*>(base); }
  // A separate page for the exchange between ranks on devices (transport/p2p/device_neighbour.h).
  std::byte* device_page(std::byte* base) const { return base + device_page_offset_; }
  // The ring through which the owner of `base` receives from `source`.
  device::Ring& ring(std::byte* base, RingKind kind, Rank source) const;
  device::u8* payload(std::byte* base, RingKind kind, Rank source) const;
  device::u8* inline_messages(std::byte* base, RingKind kind, Rank source) const;
  // Counts the signals that `source` has sent to the owner of `base`. The sender increments the counter (release) after
  // the data; the waiting owner loads the counter (acquire).
  std::atomic<std::uint64_t>& signal(std::byte* base, Rank source, int signal, int context) const;

  // The payloads hold no state between calls.
  std::size_t payloads_offset() const { return payloads_offset_; }
  std::size_t payloads_bytes() const { return schedule_updates_offset_ - payloads_offset_; }

  std::byte* schedule_updates(std::byte* base) const { return base + schedule_updates_offset_; }

  // For reductions by the ranks that are there: every rank has two areas for operands, sums and results. The words are
  // used in the memory of the host's first rank.
  struct Arrival {
    std::byte* area = nullptr;
    std::byte* second_area = nullptr;
    std::atomic<std::uint64_t>* counts = nullptr;  // one for each rank and slot
    std::atomic<std::uint64_t>* done = nullptr;    // by slot
    std::atomic<std::uint64_t>* passed = nullptr;  // by rank, a cache line each
    std::atomic<std::uint64_t>* roles = nullptr;   // kArrivalRoleWords
  };
  static constexpr std::size_t kArrivalSliceBytes = 32768;
  static constexpr std::size_t kArrivalRoleWords = 8;
  // The most slots whose words lie there: two areas of each rank, of which a slot takes one slice for two ranks.
  std::size_t arrival_slots() const { return 4 * arrival_slices(); }
  std::size_t arrival_slices() const { return arrival_bytes_ / kArrivalSliceBytes; }
  std::size_t arrival_bytes() const { return arrival_bytes_; }
  Arrival arrival(std::byte* base) const;

 private:
  std::size_t index(RingKind kind, Rank source) const {
    return static_cast<std::size_t>(kind) * static_cast<std::size_t>(ranks_) + static_cast<std::size_t>(source);
  }

  int ranks_;
  std::size_t slot_bytes_;
  std::size_t device_page_offset_;
  std::size_t rings_offset_;
  std::size_t deep_offset_;
  std::size_t signals_offset_;
  std::size_t payloads_offset_;
  std::size_t schedule_updates_offset_;
  std::size_t arrival_offset_;
  std::size_t arrival_bytes_;
  std::size_t total_bytes_;
};

}  // namespace sccl::runtime
