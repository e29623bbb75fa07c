#include "runtime/transport/net/link/rings.h"

#include <sys/mman.h>

#include <cerrno>

#include "base/error.h"
#include "base/round_up.h"

namespace sccl::runtime {
namespace {

constexpr std::size_t kPageBytes = 4096;
// As in shared memory: a different phase than that of user buffers avoids 4K aliasing.
constexpr std::size_t kPayloadPhaseBytes = kPageBytes / 2;
// A link does not know how long the last message of a round is, so it sends all lines behind the ring. A larger ring
// makes that rare; so this ring has more lines than one between ranks of a host.
constexpr device::u32 kLines = 4 * device::kInlineLines;
static_assert(device::kShortSlotCount <= device::kMostDepth);
constexpr std::size_t kRingBytes = round_up(sizeof(device::Ring), kPageBytes);

std::size_t inline_bytes(const LinkShape::Ring& ring) {
  return round_up(std::size_t{ring.inline_lines + ring.tail_lines} * device::kCacheLineBytes, kPageBytes);
}

std::size_t payload_bytes(const LinkShape::Ring& ring) {
  return round_up(kPayloadPhaseBytes + kernels::slots_bytes(ring), kPageBytes);
}

}  // namespace

LinkShape link_shape_of(const MemoryLayout& layout, int ranks) {
  LinkShape shape;
  for (int kind = 0; kind < MemoryLayout::ring_kinds(ranks); ++kind) {
    const auto named = static_cast<MemoryLayout::RingKind>(kind);
    const bool deep = named == MemoryLayout::RingKind::deep;
    shape.kinds.push_back({layout.slot_bytes(named), MemoryLayout::depth(named),
                           deep ? device::kDeepInlineLines : kLines,
                           deep ? device::kDeepInlineTailLines : device::kInlineTailLines,
                           deep ? 0 : static_cast<device::u32>(layout.slot_bytes(named) / kernels::kShortPart)});
  }
  return shape;
}

std::size_t RemoteRings::most_bytes(const LinkShape& shape) {
  std::size_t bytes = 0;
  for (const LinkShape::Ring& ring : shape.kinds) bytes += kRingBytes + inline_bytes(ring) + payload_bytes(ring);
  return bytes;
}

RemoteRings::RemoteRings(const LinkShape& shape) : rings_(shape.kinds.size()), bytes_(most_bytes(shape)) {
  for (int kind = 0; kind < shape.count(); ++kind) {
    One& one = of(kind);
    static_cast<LinkShape::Ring&>(one) = shape.kinds[static_cast<std::size_t>(kind)];
    one.stale_lines.assign(one.inline_lines / 64, 0);
  }
  void* const memory =
      ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) fail_errno(errno, "mapping slots for a rank of another host", "free memory");
  memory_ = static_cast<std::byte*>(memory);
  std::byte* at = memory_;
  for (One& one : rings_) {
    one.ring = reinterpret_cast<device::Ring*>(at);
    one.inline_messages = reinterpret_cast<device::u8*>(at + kRingBytes);
    at += kRingBytes + inline_bytes(one);
    one.payload = reinterpret_cast<device::u8*>(at + kPayloadPhaseBytes);
    at += payload_bytes(one);
  }
  std::size_t offset = 0;
  for (One& one : rings_) {
    one.device_offset = offset;
    offset += one.payload_bytes();
  }
  if (shape.device_slots) device_slots_ = shape.device_slots(shape.slots_bytes());
}

void RemoteRings::One::attach(Rank peer, kernels::HostConnection& end) {
  end.ring = ring;
  end.payload = payload;
  end.slot_bytes = slot_bytes;
  end.depth = depth;
  end.short_bytes = short_bytes;
  end.inline_lines = inline_lines;
  end.inline_messages = inline_messages;
  end.shared_slots = nullptr;
  end.peer = peer;
  end.peer_process = 0;
  end.maps_buffers = false;
}

RemoteRings::~RemoteRings() { ::munmap(memory_, bytes_); }

}  // namespace sccl::runtime
