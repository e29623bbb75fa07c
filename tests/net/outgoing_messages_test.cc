// How the sender's side of a link cuts messages into frames.
#include "runtime/transport/net/link/outgoing_messages.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <vector>

#include "base/error.h"
#include "kernels/host/target.h"

namespace {

using namespace sccl::runtime;
namespace device = sccl::device;
using Slots = device::Slots<sccl::kernels::HostTarget>;
using LongPayloads = OutgoingMessages::LongPayloads;

constexpr std::size_t kUsualSlotBytes = 252 * 1024;  // between hosts

LinkShape shape_with(std::size_t slot_bytes) {
  LinkShape shape;
  shape.kinds.push_back({slot_bytes, device::kSlotCount, device::kInlineLines, device::kInlineTailLines});
  return shape;
}

// The sender's end of a link, and one frame at a time.
struct Sender {
  explicit Sender(std::size_t slot_bytes)
      : shape(shape_with(slot_bytes)), messages({shape, 0, 1, 2 * slot_bytes}), memory(kFrameBytes) {
    messages.attach({sccl::schedule::Direction::outgoing, 1, 0}, end);
  }
  void publish(std::size_t bytes) { Slots::publish(end, 0, bytes); }
  FrameWriter frame() { return {memory, 1, 0}; }

  LinkShape shape;
  sccl::kernels::HostConnection end{};
  OutgoingMessages messages;
  std::vector<std::byte> memory;
};

}  // namespace

TEST_CASE("a message that fills a slot of the usual length is one frame, whatever goes before it") {
  Sender sender(kUsualSlotBytes);
  sender.publish(100);
  sender.publish(kUsualSlotBytes);
  sender.publish(kUsualSlotBytes);
  for (int message = 1; message <= 2; ++message) {
    FrameWriter frame = sender.frame();
    CHECK(sender.messages.append(frame, LongPayloads::stay_in_slots) == (message == 2));
    CHECK(frame.payload_in_place().size() == kUsualSlotBytes);
    CHECK(frame.finish().size() + kUsualSlotBytes <= kMostFrameBytes);
  }
}

TEST_CASE("a payload that lies in a buffer is sent from there, also in parts and as a copy") {
  Sender sender(kUsualSlotBytes);
  std::vector<std::byte> buffer(kUsualSlotBytes);
  for (std::size_t i = 0; i < buffer.size(); ++i) buffer[i] = static_cast<std::byte>(i % 251);
  const auto publish_lent = [&](std::size_t bytes) {
    Slots::header(sender.end).lent = reinterpret_cast<device::u64>(buffer.data());
    sender.publish(bytes);
  };
  publish_lent(kUsualSlotBytes);
  FrameWriter frame = sender.frame();
  CHECK(sender.messages.append(frame, LongPayloads::stay_in_slots));
  CHECK(frame.payload_in_place().data() == buffer.data());

  publish_lent(kUsualSlotBytes);
  std::vector<std::byte> sent;
  for (bool whole = false; !whole;) {
    FrameWriter part = sender.frame();
    whole = sender.messages.append(part, LongPayloads::copied);
    FrameReader reader(part.finish(), 1, 0);
    RecordHead head;
    std::span<const std::byte> payload;
    while (reader.next(head, payload)) sent.insert(sent.end(), payload.begin(), payload.end());
  }
  CHECK(sent == buffer);
}

// A page's first bytes travel in the frame (4K aliasing); a reader joins both.
TEST_CASE("a payload that begins a page arrives whole, the rest of it from where it lies") {
  Sender sender(kUsualSlotBytes);
  constexpr std::size_t kPage = 4096;
  std::vector<std::byte> memory(kUsualSlotBytes + kPage);
  std::byte* const page = memory.data() + (kPage - reinterpret_cast<std::uintptr_t>(memory.data()) % kPage);
  for (std::size_t i = 0; i < kUsualSlotBytes; ++i) page[i] = static_cast<std::byte>(i % 251);
  Slots::header(sender.end).lent = reinterpret_cast<device::u64>(page);
  sender.publish(kUsualSlotBytes);
  FrameWriter frame = sender.frame();
  CHECK(sender.messages.append(frame, LongPayloads::stay_in_slots));
  const auto in_place = frame.payload_in_place();
  CHECK(in_place.data() == page + (kUsualSlotBytes - in_place.size()));
  CHECK(in_place.size() < kUsualSlotBytes);
  CHECK(in_place.size() > kUsualSlotBytes - kPage);

  const auto first = frame.finish();
  std::vector<std::byte> one_piece(first.begin(), first.end());
  one_piece.insert(one_piece.end(), in_place.begin(), in_place.end());
  for (const bool in_two : {true, false}) {
    FrameReader reader = in_two ? FrameReader(first, 1, 0, in_place) : FrameReader(one_piece, 1, 0);
    std::vector<std::byte> read;
    RecordHead head;
    std::span<const std::byte> payload;
    while (reader.next(head, payload)) {
      CHECK(head.count == kUsualSlotBytes);
      CHECK(head.offset == read.size());
      read.insert(read.end(), payload.begin(), payload.end());
      CHECK(head.incomplete == (read.size() < kUsualSlotBytes ? 1 : 0));
    }
    CHECK(std::equal(read.begin(), read.end(), page, page + kUsualSlotBytes));
  }
}

TEST_CASE("a frame whose last payload is not the one that came beside it is refused") {
  std::vector<std::byte> memory(kFrameBytes);
  const std::vector<std::byte> beside(100);
  FrameWriter frame(memory, 1, 0);
  RecordHead head;
  head.bytes = 100;
  frame.append_in_place(head, beside.data());
  const auto first = frame.finish();
  const std::span<const std::byte> payload(beside);
  std::span<const std::byte> found;
  CHECK_THROWS_AS(FrameReader(first, 1, 0, payload.first(99)), sccl::Error);
  CHECK_THROWS_AS(FrameReader(first, 1, 0), sccl::Error);

  FrameWriter other(memory, 1, 0);
  head.bytes = 8;
  other.append(head);
  other.append_in_place({.bytes = 100}, beside.data());
  std::vector<std::byte> forged(other.finish().begin(), other.finish().end());
  forged[sizeof(FrameHead) + sizeof(RecordHead) + 8 + offsetof(RecordHead, bytes)] = std::byte{99};
  FrameReader reader(forged, 1, 0, payload);
  CHECK(reader.next(head, found));
  CHECK_THROWS_AS(reader.next(head, found), sccl::Error);
}

TEST_CASE("a message that finds no room for all its payload waits for a frame of its own") {
  Sender sender(kUsualSlotBytes);
  FrameWriter full = sender.frame();
  RecordHead head;
  head.bytes = 16 * 1024;
  full.append(head);
  sender.publish(kUsualSlotBytes);
  CHECK_FALSE(sender.messages.append(full, LongPayloads::stay_in_slots));
  CHECK(full.payload_in_place().empty());
  FrameWriter next = sender.frame();
  CHECK(sender.messages.append(next, LongPayloads::stay_in_slots));
  CHECK(next.payload_in_place().size() == kUsualSlotBytes);
}

TEST_CASE("a message that is longer than any frame is cut, and its parts are the whole message") {
  const std::size_t slot_bytes = 2 * kUsualSlotBytes;
  Sender sender(slot_bytes);
  sender.publish(slot_bytes);
  std::size_t sent = 0;
  int frames = 0;
  for (bool whole = false; !whole; ++frames) {
    FrameWriter frame = sender.frame();
    whole = sender.messages.append(frame, LongPayloads::stay_in_slots);
    sent += frame.payload_in_place().size();
    CHECK(frame.finish().size() + frame.payload_in_place().size() <= kMostFrameBytes);
    REQUIRE(frames < 3);
  }
  CHECK(sent == slot_bytes);
  CHECK(frames == 2);
}

TEST_CASE("an engine that does not join parts gets frames of their own memory") {
  Sender sender(kUsualSlotBytes);
  sender.publish(kUsualSlotBytes);
  int frames = 0;
  for (bool whole = false; !whole; ++frames) {
    FrameWriter frame = sender.frame();
    whole = sender.messages.append(frame, LongPayloads::copied);
    CHECK(frame.payload_in_place().empty());
    CHECK(frame.finish().size() <= kFrameBytes);
    REQUIRE(frames < 6);
  }
  CHECK(frames == 5);
}
