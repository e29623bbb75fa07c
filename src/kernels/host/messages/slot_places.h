// Where the slots of a connection on the host lie, and how many messages it holds.
//
// A connection over the network has slots of its own for short messages, besides those for long ones: much latency asks
// for many short messages under way, and few slots for long ones stay in the caches. Slots of both kinds are taken by
// the number of the message. A message takes its slot when so few messages are under way that its slot is free,
// whatever their lengths: one that is long, when fewer than `depth` are.
#pragma once

#include "kernels/device/connection.h"

namespace sccl::kernels {

// A slot for short messages has this part of one for long ones: all of them together have as much memory.
inline constexpr device::u32 kShortPart = device::kShortSlotCount / device::kSlotCount;

// `Ring` has slot_bytes and depth (a power of two), and short_bytes: of the slots of messages of 1 to so many bytes, 0
// if there are none. At both ends these are the same, so both know a message's slot from its length.
template <class Ring>
bool is_short(const Ring& ring, device::u64 bytes) {
  return bytes - 1 < ring.short_bytes;
}

// So many messages may be under way with this one.
template <class Ring>
device::u32 depth_for(const Ring& ring, device::u64 bytes) {
  return is_short(ring, bytes) ? device::kShortSlotCount : ring.depth;
}

// The number of a message's slot among those for messages of its length.
template <class Ring>
device::u32 slot_number(const Ring& ring, device::u64 position, device::u64 bytes) {
  return static_cast<device::u32>(position & (depth_for(ring, bytes) - 1));
}

// The place of a message's slot behind the first one.
template <class Ring>
device::u64 slot_offset(const Ring& ring, device::u64 position, device::u64 bytes) {
  if (is_short(ring, bytes))
    return ring.depth * ring.slot_bytes + position % device::kShortSlotCount * ring.short_bytes;
  return (position & (ring.depth - 1)) * ring.slot_bytes;
}

template <class Ring>
device::u64 slots_bytes(const Ring& ring) {
  return ring.depth * ring.slot_bytes + device::u64{device::kShortSlotCount} * ring.short_bytes;
}

}  // namespace sccl::kernels
