// The host's `ll` protocol: header and payload lie in one piece of memory, so that a short message is one cache line
// and hundreds of messages are in flight. A release on the host orders all earlier stores, so words need no flags of
// their own, and messages are read and written in place.
//
//   line p              line p + n
//   | flag, signature | payload ... | 0 or an earlier header, later the next message's |
//
// A message begins at a cache line and takes n lines. A payload that is long enough for stores past the caches has
// whole lines of its own. A message that begins near the end continues behind the end, where there is room for the
// longest message; the next message then begins at the first line again.
//
// Old payloads must not look like the next message. So the sender stores in this order: payload; zero in the place of
// the next header, if anything but a header of the round before stands there; header (release). A receiver that has
// read one message (acquire) then finds zero at the next place, or a flag other than the expected one, until the next
// message is there.
//
// stale_lines tells the sender where this zero is needed. Calls of one length have their headers at the same places in
// every round and need no zero. The zero costs one more line taken from the receiver, which polls the line beside it
// meanwhile and takes the zeroed line back: short exchanges took a fifth to a third more time.
#pragma once

#include "kernels/device/protocol.h"
#include "kernels/host/messages/slot_stores.h"
#include "platform/host/prefetch.h"

namespace sccl::kernels {

template <class Target>
struct InlineMessages {
  using u8 = device::u8;
  using u32 = device::u32;
  using u64 = device::u64;
  using Connection = typename Target::Connection;

  static constexpr bool kFenced = false;
  static constexpr bool kByWords = false;
  static constexpr bool kInPlace = true;
  static constexpr bool kLends = false;
  static constexpr u32 kFlagShift = 32;

  // Both ends count lines. A message that ends behind the last line consumes the rest of the ring.
  static u64 after(const Connection& connection, u64 bytes) {
    const u64 lines = (before_payload(bytes) + bytes + device::kCacheLineBytes - 1) / device::kCacheLineBytes;
    const u64 left = connection.inline_lines - place(connection, connection.ll_position);
    return connection.ll_position + (lines < left ? lines : left);
  }

  static u64 longest(const Connection& connection) {
    return connection.inline_lines == device::kInlineLines ? device::kInlineMessageBytes
                                                           : device::kDeepInlineMessageBytes;
  }

  static u64 flag(const Connection& connection, u32 = 0) { return connection.ll_position % 0xfffffffeull + 1; }
  static u64* word(Connection& connection) { return header(connection, connection.ll_position); }
  static u8* payload(Connection& connection, u64 bytes) {
    return reinterpret_cast<u8*>(word(connection)) + before_payload(bytes);
  }

  // `seen` was loaded with acquire; pairs with publish() of the peer.
  static device::Sight sight(Connection& connection, u64 seen, u32 signature) {
    return device::sight_of(seen, flag(connection), signature);
  }
  static constexpr bool whole(Connection&, u8*, u64, u32) { return true; }

  // Room for the message and for the header behind it; pairs with consume() of the peer.
  static bool has_room(Connection& connection, u64 bytes) {
    const u64 next = after(connection, bytes);
    if (next - connection.ll_seen_tail < connection.inline_lines) return true;
    connection.ll_seen_tail = Target::load_acquire(&connection.ring->ll_tail.value);
    return next - connection.ll_seen_tail < connection.inline_lines;
  }

  static u64& seen_tail(Connection& connection) { return connection.ll_seen_tail; }
  static const device::Tail& tail(const Connection& connection) { return connection.ring->ll_tail; }

  static void publish(Connection& connection, u32 signature, u64 bytes) {
    const u64 next = after(connection, bytes);
    take_lines_behind(connection, next);
    make_stale(connection, place(connection, connection.ll_position) + 1, next - connection.ll_position - 1);
    if (take_stale(connection, place(connection, next))) Target::store_relaxed(header(connection, next), 0);
    Target::store_release(word(connection), flag(connection) << kFlagShift | signature);
    connection.ll_position = next;
  }

  // A sender that finds the ring full reads the tail again and again, and takes the tail's line from the receiver each
  // time. So the receiver stores the tail only when another eighth (kParts) of the ring has become free. The rest of
  // the ring always has room for the longest message.
  static void consume(Connection& connection, u64 bytes) {
    const u64 before = connection.ll_position;
    connection.ll_position = after(connection, bytes);
    if ((connection.ll_position ^ before) >= connection.inline_lines / kParts)
      Target::store_release(&connection.ring->ll_tail.value, connection.ll_position);
  }

 private:
  static constexpr u64 kHeaderBytes = 8;
  static constexpr u64 kLinesTaken = 16;
  static constexpr u64 kParts = 8;
  static constexpr u64 before_payload(u64 bytes) {
    return bytes < SlotStores::kLeastBytes ? kHeaderBytes : device::kCacheLineBytes;
  }
  static_assert(device::kCacheLineBytes + device::kInlineMessageBytes <=
                device::kInlineTailLines * device::kCacheLineBytes);
  static_assert(device::kCacheLineBytes + device::kDeepInlineMessageBytes <=
                device::kDeepInlineTailLines * device::kCacheLineBytes);

  // Prefetches, for writing, the lines behind `next`, which the following message of the same length will fill. They
  // are in the peer's cache, because the peer read them a round ago. A store that has to wait for such a line makes all
  // later stores wait: without the prefetch a stream of short messages between cores without a shared cache takes twice
  // as long.
  static void take_lines_behind(Connection& connection, u64 next) {
    const u64 lines = next - connection.ll_position;
    const u64* line = header(connection, next);
    for (u64 i = 0; i < (lines < kLinesTaken ? lines : kLinesTaken); ++i)
      host::prefetch_to_write(line += device::kCacheLineBytes / sizeof(u64));
  }
  // Marks the lines of a message besides its first, and the lines that the message skips at the end of a round.
  static void make_stale(Connection& connection, u64 first, u64 count) {
    while (count > 0) {
      const u64 bit = first % 64;
      const u64 here = count < 64 - bit ? count : 64 - bit;
      connection.stale_lines[first / 64] |= (~u64{0} >> (64 - here)) << bit;
      first += here;
      count -= here;
    }
  }
  static bool take_stale(Connection& connection, u64 line) {
    u64& lines = connection.stale_lines[line / 64];
    const u64 bit = u64{1} << line % 64;
    const bool was = (lines & bit) != 0;
    lines &= ~bit;
    return was;
  }

  static u64 place(const Connection& connection, u64 position) { return position & (connection.inline_lines - 1); }
  static u64* header(Connection& connection, u64 position) {
    return reinterpret_cast<u64*>(connection.inline_messages + place(connection, position) * device::kCacheLineBytes);
  }
};

}  // namespace sccl::kernels
