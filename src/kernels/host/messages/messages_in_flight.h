// How many messages a connection holds for certain, whatever their protocol and length. Programs are made for this
// number: an operation that forwards what it receives may need several messages in flight to go on.
//
// There are kSlotCount slots, but the ring of short messages (inline_messages.h) holds fewer of its longest ones. A
// line is free for the sender only after the receiver has reported it as read, and up to an eighth of the ring may be
// read but not reported.
#pragma once

#include "kernels/device/connection.h"

namespace sccl::kernels {

inline constexpr device::u32 kMessagesInFlight = 3;

constexpr bool holds_messages_in_flight(device::u32 lines, device::u32 lines_of_longest) {
  return kMessagesInFlight * lines_of_longest + lines / 8 < lines;
}
static_assert(kMessagesInFlight <= device::kSlotCount && kMessagesInFlight <= device::kLlSlotCount &&
              kMessagesInFlight <= device::kLineSlotCount);
static_assert(holds_messages_in_flight(device::kInlineLines, device::kInlineTailLines));
static_assert(holds_messages_in_flight(device::kDeepInlineLines, device::kDeepInlineTailLines));

}  // namespace sccl::kernels
