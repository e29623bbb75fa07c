// Messages in whole lines (`ll128`): 128 bytes of which 120 are payload and the last 8 a flag, stored and loaded by
// eight neighbouring threads of a warp together, 16 bytes each.
//
//   thread of the line   0        1        ...   6        7
//   words of 8 bytes     0  1     2  3           12 13    14 flag      flag: this call's signature, and how many
//                                                                      messages the connection has carried with this
//                                                                      one
//
// Order. What `simple` has a fence for, and `ll` a flag in every word, the line itself gives here: the eight stores of
// a line are one instruction of one warp on one aligned line, and leave the device as one transaction; so do the loads.
// A reader that sees the flag of this message in a line has all of the line's payload in its registers, from the same
// load. So
//   - flag and payload need no order between them: they are one store and one load. No fence; lines of a message
//     may arrive in any order, since each is believed by its own flag only.
//   - pack() pairs with take(): every line by its flag. The leader looks at the flag of the first line alone, which
//     tells without any order whether a message has begun and whether it is of this call.
//   - has_room() pairs with consume(), as in `simple`: a line is stored again after its reader's loads.
//   - a flag is never reset, and no payload ever lies where a flag is looked for: these slots hold nothing but lines.
//     What an earlier, longer message left behind in a slot has an older flag (2^32 messages of the connection,
//     exactly, and the same signature would have to lie between the two for it to be the same).
// A link that cuts a line (PCIe may, at 64 bytes or less; so may memory of the host) would deliver a flag without
// some of its payload, and old data would be taken for new: there is no check that could find it. So the runtime
// believes links by what they are, never by trying (platform/gpu/line_paths.h): none is given lines that is not known
// to keep them.
//
// Target offers, to all threads of a warp together:
//   u32 warp_lanes()                         a multiple of 8, of which a block has whole ones
//   bool warp_all(bool)                      whether all threads of the warp say so
//   LinePart load_line_part(from, active)    a thread's 16 bytes; those of the eight active threads of a line come from
//   one load void store_line_part(to, part, active)   likewise
#pragma once

#include "kernels/device/protocol.h"

namespace sccl::device {

struct alignas(16) LinePart {
  u64 words[2];
};

template <class Target>
struct Lines {
  using Connection = typename Target::Connection;

  static u64* slot(Connection& connection) {
    return connection.lines + connection.line_position % kLineSlotCount * (kLineSlotBytes / 8);
  }
  static u64 flag(const Connection& connection, u32 signature) {
    return signed_flag(signature, connection.line_position);
  }
  static u64 line_count(u64 bytes) { return (bytes + kLinePayloadBytes - 1) / kLinePayloadBytes; }

  // Of the first line: enough to tell that the peer is in another call.
  static u64* flag_word(Connection& connection) { return slot(connection) + kFlagWord; }

  static bool has_room(Connection& connection) {
    if (connection.line_position - connection.line_seen_tail < kLineSlotCount) return true;
    connection.line_seen_tail = Target::load_polled(&connection.ring->line_tail.value);
    return connection.line_position - connection.line_seen_tail < kLineSlotCount;
  }

  // Every warp writes the payload of its lines to `to`, aligned to 8 bytes and with room for a whole last word, as far
  // as they are there. False when this warp's are not all: nothing is lost then, and the call may be made again.
  static bool take(Connection& connection, u8* to, u64 bytes, u32 signature) {
    const u64 awaited = flag(connection, signature);
    const u64* const from = slot(connection);
    const u64 lines = line_count(bytes);
    SCCL_ROLLED for (u64 first = first_of_warp(); first < lines; first += lines_at_once()) {
      const Place place = place_of(first);
      const bool active = place.line < lines;
      LinePart part;
      u32 polls = 0;
      do {
        if (++polls > kPollsPerTurn) return false;  // the leader looks whether to wait on
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

  static void sent(Connection& connection) { ++connection.line_position; }

  // Pairs with has_room() of the peer.
  static void consume(Connection& connection) {
    ++connection.line_position;
    Target::store_published(&connection.ring->line_tail.value, connection.line_position);
  }

 private:
  static constexpr u32 kThreadsOfLine = 8;
  static constexpr u32 kLastPart = kThreadsOfLine - 1;
  static constexpr u32 kLineWords = kLineBytes / 8;
  static constexpr u32 kFlagWord = kLineWords - 1;
  static constexpr u32 kPollsPerTurn = 64;

  // What a thread has of the lines that its warp is at.
  struct Place {
    u64 line;
    u32 part;
    u64 offset;  // of its words in the slot
    u64 word;    // of its first one in the stream
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

  // Zeros follow the last byte.
  static u64 word_of(const u8* from, u64 at, u64 bytes) {
    if (at >= bytes) return 0;
    const u8* const source = from + at;
    if (bytes - at >= 8 && reinterpret_cast<u64>(source) % 8 == 0) return *reinterpret_cast<const u64*>(source);
    u64 word = 0;
    SCCL_ROLLED for (u32 i = 0; i < 8 && at + i < bytes; ++i) word |= static_cast<u64>(source[i]) << (8 * i);
    return word;
  }
};

}  // namespace sccl::device
