// How a rank's shared memory is laid out, the same at every rank: what it shows its peers (control/shared_state.h), a
// page for ranks on devices, the rings and slots that it receives through, counters of signals, and the text of news.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/types.h"
#include "kernels/device/connection.h"
#include "runtime/control/state/shared_state.h"

namespace sccl::runtime {

// Offsets within a rank's shared memory, the same at every rank.
class MemoryLayout {
 public:
  // Short messages of rooted calls have deep connections of their own: a rank that only sends runs ahead of the others
  // by as many. Where all wait for all, messages are only spread over more memory, which two ranks alone gain by.
  enum class RingKind : int { collective = 0, point_to_point = 1, deep = 2 };
  // The last is there for few ranks only, for it takes the most memory.
  static constexpr bool has_deep(int ranks) { return ranks <= 8; }
  static constexpr int ring_kinds(int ranks) { return has_deep(ranks) ? 3 : 2; }
  static constexpr std::size_t kDeepPart = 4;  // of a slot is one of its slots
  static constexpr int kSignals = 16;          // one-sided signals a rank can get from each other rank, by index
  static constexpr int kContexts = 4;
  static constexpr std::size_t kDevicePageBytes = 4096;

  // How many times slot_bytes a rank's slots take.
  static std::size_t slots(int ranks);

  // `schedule_updates_bytes`: 0, or ScheduleUpdates::kBytes where there will be news.
  // `tree_bytes`: 0, or the longest buffer that is reduced over a combining tree (kernels/host/combining_tree.h).
  MemoryLayout(int ranks, std::size_t slot_bytes, std::size_t schedule_updates_bytes = 0, std::size_t tree_bytes = 0);

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
  // A page of its own for what ranks on devices show one another (transport/p2p/device_neighbour.h).
  std::byte* device_page(std::byte* base) const { return base + device_page_offset_; }
  // The ring through which the owner of `base` receives from `source`.
  device::Ring& ring(std::byte* base, RingKind kind, Rank source) const;
  device::u8* payload(std::byte* base, RingKind kind, Rank source) const;
  device::u8* inline_messages(std::byte* base, RingKind kind, Rank source) const;
  // Counts the signals that `source` has sent to the owner of `base`: added to (release) after the data they announce,
  // loaded (acquire) by who waits for them.
  std::atomic<std::uint64_t>& signal(std::byte* base, Rank source, int signal, int context) const;

  // The part that holds no state between calls.
  std::size_t payloads_offset() const { return payloads_offset_; }
  std::size_t payloads_bytes() const { return schedule_updates_offset_ - payloads_offset_; }

  std::byte* schedule_updates(std::byte* base) const { return base + schedule_updates_offset_; }

  // Of the combining tree: a rank's operands; in the memory of rank 0 the result and the counts of every slice.
  static constexpr std::size_t kTreeSliceBytes = 32768;
  std::size_t tree_bytes() const { return tree_bytes_; }
  std::byte* tree_area(std::byte* base) const { return base + tree_offset_; }
  std::byte* tree_result(std::byte* base) const { return tree_area(base) + tree_bytes_; }
  std::atomic<std::uint64_t>* tree_counts(std::byte* base) const {
    return reinterpret_cast<std::atomic<std::uint64_t>*>(tree_result(base) + tree_bytes_);
  }
  std::atomic<std::uint64_t>* tree_done(std::byte* base) const {
    return tree_counts(base) + tree_slices() * static_cast<std::size_t>(ranks_);
  }

 private:
  std::size_t tree_slices() const { return tree_bytes_ / kTreeSliceBytes; }
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
  std::size_t tree_offset_;
  std::size_t tree_bytes_;
  std::size_t total_bytes_;
};

}  // namespace sccl::runtime
