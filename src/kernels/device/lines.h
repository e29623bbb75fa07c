// Messages in whole lines (`ll128`). A line has 128 bytes: 120 bytes of payload, then a flag of 8 bytes. Eight
// neighbouring threads of a warp store or load a line together, 16 bytes each.
//
//   thread of the line   0        1        ...   6        7
//   words of 8 bytes     0  1     2  3           12 13    14 flag
//
// The flag holds the signature of the call and the number of messages of the connection, this one included.
//
// Order. `simple` has a fence and `ll` has a flag in every word; here the line itself gives the order. The eight stores
// of a line are one instruction of one warp on one aligned line, and leave the device as one transaction. The same
// holds for the loads. A reader that sees the flag of this message in a line has the whole payload of the line in its
// registers, from the same load. So
// load. So
// - flag and payload need no order between them: they are one store and one load. There is no fence. Lines of a message
//   may arrive in any order, because each line is judged by its own flag only.
// - pack() pairs with whole(): every line by its flag. The leader tests only the flag of the first line. Without any
//   order this flag tells whether a message has begun and whether the message belongs to this call.
// - has_room() pairs with consume(), as in `simple`: the sender stores a line again only after its reader's loads.
// - a flag is never reset, and no payload ever lies at the place of a flag: these slots hold nothing but lines. What an
//   earlier, longer message left in a slot has an older flag. (An old flag equals a new one only after exactly 2^32
//   messages of the connection with the same signature.)
// A link that cuts a line would deliver a flag without some of its payload, and the reader would take old data for new.
// PCIe may cut lines at 64 bytes or less, and so may host memory. No check could find such an error. So the runtime
// trusts links by what they are, never by a trial (platform/gpu/line_paths.h): only links known to keep lines whole
// carry lines.
//
// Target offers, to all threads of a warp together:
//   u32 warp_lanes()                         a multiple of 8; a block consists of whole warps
//   bool warp_all(bool)                      whether the argument is true for all threads of the warp
//   LinePart load_line_part(from, active)    a thread's 16 bytes; one load serves the eight active threads of a line
//   void store_line_part(to, part, active)   likewise, one store
#pragma once

#include "kernels/device/protocol.h"

namespace sccl::device {

struct alignas(16) LinePart {
  u64 words[2];
};

template <class Target>
struct Lines {
  using Connection = typename Target::Connection;

  static constexpr bool kFenced = false;
  static constexpr bool kInPlace = false;
  static constexpr bool kLends = false;
  static constexpr bool kByWords = false;
  static constexpr u32 kFlagShift = 0;

  static constexpr u64 longest(const Connection&) { return kLineMessageBytes; }
  static u64* slot(Connection& connection) {
    return connection.lines + connection.line_position % kLineSlotCount * (kLineSlotBytes / 8);
  }
  static u64 flag(const Connection& connection, u32 signature) {
    return signed_flag(signature, connection.line_position);
  }
  static u64 line_count(u64 bytes) { return (bytes + kLinePayloadBytes - 1) / kLinePayloadBytes; }

  // The flag of the first line: enough to tell that the peer is in another call.
  static u64* word(Connection& connection) { return slot(connection) + kFlagWord; }
  static Sight sight(Connection& connection, u64 seen, u32 signature) {
    return sight_of_signed(seen, flag(connection, signature));
  }

  static bool has_room(Connection& connection, u64 = 0) {
    if (connection.line_position - connection.line_seen_tail < kLineSlotCount) return true;
    connection.line_seen_tail = Target::load_polled(&connection.ring->line_tail.value);
    return connection.line_position - connection.line_seen_tail < kLineSlotCount;
  }
  static u64& seen_tail(Connection& connection) { return connection.line_seen_tail; }
  static const Tail& tail(const Connection& connection) { return connection.ring->line_tail; }

  // Every warp copies the payload of its lines to `to` once they have arrived. `to` is aligned to 8 bytes and has room
  // for a whole last word. False when a line of this warp is missing: nothing is lost, and the call may be repeated.
  static bool whole(Connection& connection, u8* to, u64 bytes, u32 signature) {
    const u64 awaited = flag(connection, signature);
    const u64* const from = slot(connection);
    const u64 lines = line_count(bytes);
    SCCL_ROLLED for (u64 first = first_of_warp(); first < lines; first += lines_at_once()) {
      const Place place = place_of(first);
      const bool active = place.line < lines;
      LinePart part;
      u32 polls = 0;
      do {
        if (++polls > kPollsPerTurn) return false;  // the leader checks whether to wait on
        part = Target::load_line_part(from + place.offset, active);
      } while (!Target::warp_all(!active || place.part != kLastPart || part.words[1] == awaited));
      SCCL_UNROLLED for (u32 i = 0; i < 2; ++i) {
        const u64 at = (place.word + i) * 8;
        if (at < bytes && !(i == 1 && place.part == kLastPart)) *reinterpret_cast<u64*>(to + at) = part.words[i];
      }
    }
    return true;
  }

  static void pack(Connection& connection, const u8* from, u64 bytes, u32 signature) {
    const u64 mark = flag(connection, signature);
    u64* const to = slot(connection);
    const u64 lines = line_count(bytes);
    SCCL_ROLLED for (u64 first = first_of_warp(); first < lines; first += lines_at_once()) {
      const Place place = place_of(first);
      LinePart part;
      part.words[0] = word_of(from, place.word * 8, bytes);
      part.words[1] = place.part == kLastPart ? mark : word_of(from, place.word * 8 + 8, bytes);
      Target::store_line_part(to + place.offset, part, place.line < lines);
    }
  }

  // whole() has copied the message already.
  static constexpr void unpack(Connection&, u8*, u64) {}

  // Every line has been published by its own flag.
  static void publish(Connection& connection, u32, u64) { ++connection.line_position; }

  // Pairs with has_room() of the peer.
  static void consume(Connection& connection, u64 = 0) {
    ++connection.line_position;
    Target::store_published(&connection.ring->line_tail.value, connection.line_position);
  }

 private:
  static constexpr u32 kThreadsOfLine = 8;
  static constexpr u32 kLastPart = kThreadsOfLine - 1;
  static constexpr u32 kLineWords = kLineBytes / 8;
  static constexpr u32 kFlagWord = kLineWords - 1;
  static constexpr u32 kPollsPerTurn = 64;

  // A thread's part of the lines that its warp works on.
  struct Place {
    u64 line;
    u32 part;
    u64 offset;  // of the part's words in the slot
    u64 word;    // of the part's first word in the payload
  };

  static u32 lines_at_once() { return Target::threads() / kThreadsOfLine; }
  static u64 first_of_warp() {
    return Target::thread() / Target::warp_lanes() * (Target::warp_lanes() / kThreadsOfLine);
  }

  static Place place_of(u64 first) {
    const u32 part = Target::thread() % kThreadsOfLine;
    const u64 line = first + Target::thread() % Target::warp_lanes() / kThreadsOfLine;
    return {line, part, line * kLineWords + part * 2, line * (kLineWords - 1) + part * 2};
  }

  // Zeros follow the last byte of the payload.
  static u64 word_of(const u8* from, u64 at, u64 bytes) {
    if (at >= bytes) return 0;
    const u8* const source = from + at;
    if (bytes - at >= 8 && reinterpret_cast<u64>(source) % 8 == 0) return *reinterpret_cast<const u64*>(source);
    u64 word = 0;
    SCCL_ROLLED for (u32 i = 0; i < 8 && at + i < bytes; ++i) word |= static_cast<u64>(source[i]) << (8 * i);
    return word;
  }
};

// How the interpreter comes to the type of a call's protocol: with(call, f) calls f with an object of that type.
//
// One type for the whole call: the choice costs nothing while the call runs.
template <class Wire>
struct OneProtocol {
  template <typename Function>
  static decltype(auto) with(const Call&, Function&& function) {
    return function(Wire{});
  }
};

// The types of all protocols that the target has, in one piece of code.
template <class Target>
struct AnyProtocol {
  template <typename Function>
  static decltype(auto) with(const Call& call, Function&& function) {
    if (call.protocol == Protocol::simple) return function(Slots<Target>{});
    if constexpr (Target::kKeepsLines)
      if (call.protocol == Protocol::ll128) return function(Lines<Target>{});
    return function(typename Target::Ll{});
  }
};

}  // namespace sccl::device
