// One direction between two ranks: a ring of slots in memory that both ranks can reach.
//
//   sender                                         receiver
//   waits until position - tail < depth
//   writes payload and header into slot
//   header.flag  --- released ---------------->    acquires: flag == position + 1
//                                                  reads the payload
//   acquires     <------------- released ------    tail = position + 1
//
// protocol.h says which accesses release and acquire, and why that is enough.
//
// A flag holds the number of messages sent through the connection, its own message included. So a slot is full for the
// receiver exactly while flag == position + 1, and no flag is ever reset. The sender keeps the tail that it read last
// and reads the tail again only when the ring looks full.
//
// `ll` messages have a ring of their own. Each 8-byte word of it holds 4 bytes of payload (low half) and the flag (high
// half). Words are read and written whole: a word with the right flag has the right payload, so no further order is
// needed. `ll128` messages have slots of their own, too (lines.h).
#pragma once

#include "kernels/device/program.h"

namespace sccl::device {

// Slots for the longest messages. Programs count on fewer messages in flight
// (kernels/host/messages/messages_in_flight.h), because the ring of short messages holds fewer of its longest ones.
inline constexpr u32 kSlotCount = 4;
// Slots for short messages. On the host a connection over the network has them besides the others
// (kernels/host/messages/slot_places.h); on devices up to so many share the memory of the others in calls whose
// messages are all short (Call::slot_shift).
inline constexpr u32 kShortSlotCount = 16;
// The largest depth of a connection for shorter messages.
inline constexpr u32 kMostDepth = 32;
inline constexpr u32 kLlSlotCount = 8;
inline constexpr u32 kLlPayloadBytes = 1024;
inline constexpr u32 kLlWords = kLlPayloadBytes / 4 + 1;  // the first word carries the signature
inline constexpr u32 kCacheLineBytes = 64;

// The host's form of `ll` (kernels/host/messages/inline_messages.h), for a usual connection and for a deep one: the
// lines at which a message may begin (a power of two), and the lines of the longest message.
inline constexpr u32 kInlineLines = 256;
inline constexpr u32 kInlineTailLines = 65;
inline constexpr u32 kInlineMessageBytes = 4096;
inline constexpr u32 kDeepInlineLines = 4096;
inline constexpr u32 kDeepInlineTailLines = 257;
inline constexpr u32 kDeepInlineMessageBytes = 16384;

inline constexpr u32 kLineBytes = 128;
inline constexpr u32 kLinePayloadBytes = 120;
inline constexpr u32 kLineSlotCount = 8;
inline constexpr u32 kLinesOfSlot = 64;
inline constexpr u32 kLineSlotBytes = kLinesOfSlot * kLineBytes;
inline constexpr u32 kLineRingBytes = kLineSlotCount * kLineSlotBytes;
// Payload of one message. A multiple of 16, so that slices begin at whole vectors.
inline constexpr u32 kLineMessageBytes = kLinesOfSlot * kLinePayloadBytes / 16 * 16;

struct alignas(64) SlotHeader {
  u64 flag;
  u32 signature;
  u32 reserved;
  u64 bytes;  // payload of this slot, or the whole message of a point-to-point transfer
  // Only in a posted descriptor:
  u64 input_address;
  u64 output_address;
  u64 scale_bits;
  // Host only: where the payload lies, if not in this slot: in a shared slot (kernels/host/messages/shared_slots.h),
  // in the sender's buffer (a message to another host), or in the receiver's result (kernels/host/messages/landing.h).
  u64 lent;
  // Device only, in a message for another host (told_length): the length, which the flag does not tell.
  u64 told;
};
// The length of the message behind `position` others, with the low half of its flag: whoever reads this word beside a
// flag knows whether both are of one message.
inline u64 told_length(u64 bytes, u64 position) { return bytes << 32 | static_cast<u32>(position + 1); }

struct alignas(64) Tail {
  u64 value;
};

// The receiver's memory for one connection. `payload` has slot_bytes for each slot of the connection; over the
// network slots for short messages follow (kernels/host/messages/slot_places.h).
struct Ring {
  SlotHeader headers[kMostDepth];
  Tail tail;
  Tail ll_tail;
  Tail line_tail;
  union {
    alignas(64) u64 ll[kLlSlotCount][kLlWords + 7];  // padded to whole cache lines
    alignas(64) u8 inline_messages[(kInlineLines + kInlineTailLines) * kCacheLineBytes];
  };
};

// One end of a connection: the ring, and the private progress of this end. Each target adds members of its own
// (kernels/host/messages/connection.h, kernels/gpu/connection.h).
struct Connection {
  Ring* ring;
  u8* payload;
  u64 slot_bytes;
  int peer;
  bool maps_buffers;  // the peer's buffers are used in place, at its addresses plus Call's shifts
  u64 position;       // messages sent or received
  u64 seen_tail;      // sender: last tail read
  u64 ll_position;
  u64 ll_seen_tail;
};

}  // namespace sccl::device
