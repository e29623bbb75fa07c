// The format of data on a connection between two hosts: frames, each with a head and records. A frame is one message of
// the engine. It holds everything that is waiting to be sent when it is made, so a short call costs one message each
// way.
//
//   | nonce, number, bytes | record | payload | record | payload | ...
//
// The nonce belongs to the communicator; a frame with a different nonce ends the connection. Frames of a connection are
// numbered, so that a lost or repeated frame is detected. Both ends are little-endian machines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "net/net.h"

namespace sccl::runtime {

// The memory of a frame, without a payload that stays where it is. Receivers that are not shown frames post as much.
inline constexpr std::size_t kFrameBytes = 60 * 1024;
// With such a payload. A slot of the usual length fits: a frame for each message costs fewer calls of the system than
// parts of it, and all of it is at the receiver at once.
inline constexpr std::size_t kMostFrameBytes = net::kMostShownBytes;

enum class RecordType : std::uint8_t {
  hello = 1,      // the first of a connection: `position` is the sender's rank
  slot,           // a part of a message of `simple`, with its payload
  announcement,   // a message of `simple` of `count` bytes whose payload comes through the bulk connection
  lines,          // a piece of the ring of `ll` messages
  tails,          // what the receiver has consumed: slots (`position`) and lines (`count`)
  bulk_address,   // where bulk connections are accepted; the payload is the handle
  farewell,       // the sender will send nothing more
  farewell_seen,  // the answer to farewell: everything that was sent before the farewell has arrived
  put,            // a piece of a put: `position` is the offset in window `count`, `signature` the signal's number
};

struct FrameHead {
  std::uint64_t nonce;
  std::uint32_t number;
  std::uint32_t bytes;  // of the frame, this head included
};

struct RecordHead {
  RecordType type{};
  std::uint8_t kind = 0;        // of the ring: MemoryLayout::RingKind
  std::uint8_t incomplete = 0;  // slot, lines, put: more of the same message, piece or put follows
  std::uint8_t reserved = 0;
  std::uint32_t bytes = 0;      // of the payload
  std::uint64_t position = 0;   // slot, announcement: the message's; lines: where the piece begins
  std::uint64_t count = 0;      // slot, announcement: bytes of the message; lines: where the piece ends
  std::uint32_t signature = 0;  // slot, announcement, put
  std::uint32_t offset = 0;  // how much was sent before, slot: of the message, in bytes; lines: of the piece, in lines
};
static_assert(sizeof(FrameHead) == 16 && sizeof(RecordHead) == 32);

// Writes one frame into memory of its own.
class FrameWriter {
 public:
  FrameWriter() = default;
  FrameWriter(std::span<std::byte> memory, std::uint64_t nonce, std::uint32_t number);

  // The largest payload that another record may have; 0 also if no record fits.
  std::size_t room() const;
  // The largest that a record may have whose payload stays where it is.
  std::size_t room_in_place() const;
  bool empty() const { return used_ == sizeof(FrameHead); }
  // Returns the place for the payload of `head.bytes` bytes, at most room().
  std::byte* append(const RecordHead& head);
  // The last record of the frame: its payload stays where it is until the frame has been sent.
  void append_in_place(const RecordHead& head, const std::byte* payload);
  // The frame without the payload that stays where it is.
  std::span<const std::byte> finish();
  std::span<const std::byte> payload_in_place() const { return in_place_; }

 private:
  std::span<std::byte> memory_;
  std::size_t used_ = 0;
  std::span<const std::byte> in_place_;
};

// Reads a received frame without trusting its content. Throws remote_error if nonce, number or sizes are wrong. `frame`
// may be longer than the frame: engines need not tell how much came. `in_place`: the payload of the last record, if it
// does not come in `frame`.
class FrameReader {
 public:
  FrameReader(std::span<const std::byte> frame, std::uint64_t nonce, std::uint32_t number,
              std::span<const std::byte> in_place = {});

  // False at the end.
  bool next(RecordHead& head, std::span<const std::byte>& payload);

 private:
  std::span<const std::byte> rest_, in_place_;
};

}  // namespace sccl::runtime
