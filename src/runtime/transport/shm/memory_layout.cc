#include "runtime/transport/shm/memory_layout.h"

#include "base/round_up.h"

namespace sccl::runtime {
namespace {

constexpr std::size_t kPageBytes = 4096;

// Avoids 4K aliasing. Processors compare a load with earlier stores by the offset within a page only: a load waits for
// an unfinished store to the same offset, even in another page. Long buffers mostly begin near the start of a page (the
// C library's 16 bytes after it), so slots are shifted by half a page.
constexpr std::size_t kPayloadPhaseBytes = kPageBytes / 2;

constexpr std::size_t kWordsOfLine = device::kCacheLineBytes / sizeof(std::atomic<std::uint64_t>);

constexpr std::size_t kDeepInlineBytes =
    std::size_t{device::kDeepInlineLines + device::kDeepInlineTailLines} * device::kCacheLineBytes;

}  // namespace

std::size_t MemoryLayout::slots(int ranks) {
  const std::size_t deep = has_deep(ranks) ? device::kMostDepth / kDeepPart : 0;
  return static_cast<std::size_t>(ranks) * (2 * device::kSlotCount + deep);
}

MemoryLayout::MemoryLayout(int ranks, std::size_t slot_bytes, std::size_t schedule_updates_bytes,
                           std::size_t arrival_bytes)
    : ranks_(ranks), slot_bytes_(slot_bytes), arrival_bytes_(round_up(arrival_bytes, kArrivalSliceBytes)) {
  const std::size_t rings = static_cast<std::size_t>(ring_kinds(ranks) * ranks);
  device_page_offset_ = round_up(sizeof(SharedState), kPageBytes);
  rings_offset_ = device_page_offset_ + kDevicePageBytes;
  deep_offset_ = rings_offset_ + rings * sizeof(device::Ring);
  signals_offset_ = deep_offset_ + (has_deep(ranks) ? static_cast<std::size_t>(ranks) * kDeepInlineBytes : 0);
  const std::size_t signals = static_cast<std::size_t>(ranks) * kSignals * kContexts;
  payloads_offset_ = round_up(signals_offset_ + signals * sizeof(std::atomic<std::uint64_t>), kPageBytes);
  schedule_updates_offset_ = round_up(payloads_offset_ + kPayloadPhaseBytes + slots(ranks) * slot_bytes, kPageBytes);
  arrival_offset_ = schedule_updates_offset_ + round_up(schedule_updates_bytes, kPageBytes);
  total_bytes_ = schedule_updates_offset_ + schedule_updates_bytes;
  if (arrival_bytes_ == 0) return;
  const std::size_t words = arrival_slots() * (static_cast<std::size_t>(ranks) + 1) +
                            static_cast<std::size_t>(ranks) * kWordsOfLine + kArrivalRoleWords;
  total_bytes_ = arrival_offset_ + 2 * arrival_bytes_ + words * sizeof(std::atomic<std::uint64_t>);
}

MemoryLayout::Arrival MemoryLayout::arrival(std::byte* base) const {
  Arrival found;
  found.area = base + arrival_offset_;
  found.second_area = found.area + arrival_bytes_;
  found.counts = reinterpret_cast<std::atomic<std::uint64_t>*>(found.second_area + arrival_bytes_);
  found.done = found.counts + arrival_slots() * static_cast<std::size_t>(ranks_);
  found.passed = found.done + arrival_slots();
  found.roles = found.passed + static_cast<std::size_t>(ranks_) * kWordsOfLine;
  return found;
}

device::Ring& MemoryLayout::ring(std::byte* base, RingKind kind, Rank source) const {
  return reinterpret_cast<device::Ring*>(base + rings_offset_)[index(kind, source)];
}

device::u8* MemoryLayout::payload(std::byte* base, RingKind kind, Rank source) const {
  const std::size_t before =
      static_cast<std::size_t>(kind) * static_cast<std::size_t>(ranks_) * device::kSlotCount * slot_bytes_;
  return reinterpret_cast<device::u8*>(base + payloads_offset_ + kPayloadPhaseBytes) + before +
         static_cast<std::size_t>(source) * depth(kind) * slot_bytes(kind);
}

device::u8* MemoryLayout::inline_messages(std::byte* base, RingKind kind, Rank source) const {
  if (kind != RingKind::deep) return ring(base, kind, source).inline_messages;
  return reinterpret_cast<device::u8*>(base + deep_offset_) + static_cast<std::size_t>(source) * kDeepInlineBytes;
}

std::atomic<std::uint64_t>& MemoryLayout::signal(std::byte* base, Rank source, int signal, int context) const {
  const int index = (source * kSignals + signal) * kContexts + context;
  return reinterpret_cast<std::atomic<std::uint64_t>*>(base + signals_offset_)[index];
}

}  // namespace sccl::runtime
