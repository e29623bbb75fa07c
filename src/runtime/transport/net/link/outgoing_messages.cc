#include "runtime/transport/net/link/outgoing_messages.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "runtime/transport/net/link/lines.h"

namespace sccl::runtime {

using device::u32;
using device::u64;

namespace {

// A shorter part of a message waits for the next frame.
constexpr std::size_t kLeastPartBytes = 4096;
// Shorter payloads cost less to copy, several into one frame, than to send as a part of their own, which ends a frame.
constexpr std::size_t kLeastPartInPlace = 16384;
// Heads of the engine and of the system's packet come before the payload where the system copies it to, in pages of its
// own. A payload that begins a page would be copied to a place a few bytes further in its page: the processor then
// takes each load for one that waits for the stores before it (4K aliasing), and the copy takes twice the time. So the
// first bytes of such a payload travel in the frame.
constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kBytesOfHeads = 16;
constexpr std::size_t kCopiedPageBegin = 64;

bool begins_page(const std::byte* payload) {
  return reinterpret_cast<std::uintptr_t>(payload) % kPageBytes < kBytesOfHeads;
}

}  // namespace

OutgoingMessages::OutgoingMessages(const Setup& setup)
    : setup_(setup), rings_(setup.shape), sent_(setup.shape.kinds.size(), Ring{.end = &unused_}) {
  if (rings_.device_slots() != nullptr) setup_.most_framed_bytes = setup.shape.most_short_bytes;
}

void OutgoingMessages::attach(const EndRequest& request, kernels::HostConnection& end) {
  RemoteRings::One& ring = rings_.of(request.kind);
  ring.attach(request.peer, end);
  end.stale_lines = ring.stale_lines.data();
  end.takes_from_buffers = ring.slot_bytes <= setup_.most_framed_bytes || setup_.buffers != nullptr;
  sent(request.kind).end = &end;
}

bool OutgoingMessages::append(FrameWriter& frame, LongPayloads payloads) {
  for (int kind = 0; kind < rings_.kinds(); ++kind)
    if (sent(kind).has_news() && (!append_slots(frame, kind, payloads) || !append_lines(frame, kind))) return false;
  return true;
}

bool OutgoingMessages::step() {
  if (!bulk_ || !bulk_->step()) return false;
  for (int kind = 0; kind < rings_.kinds(); ++kind) free_slots(kind);
  return true;
}

// An engine that is showing the frame with the address must not be asked to connect.
bool OutgoingMessages::take_bulk_address(net::Handle address) {
  bulk_address_ = std::move(address);
  return bulk_ != nullptr;
}

void OutgoingMessages::connect_bulk(net::Net& net, int device) {
  if (bulk_address_.empty()) return;
  bulk_->connect(net.connect(device, std::exchange(bulk_address_, {})));
}

bool OutgoingMessages::has_sent() const {
  return std::any_of(sent_.begin(), sent_.end(),
                     [](const Ring& ring) { return ring.end->position > 0 || ring.end->ll_position > 0; });
}

u64 OutgoingMessages::published() const {
  u64 count = 0;
  for (const Ring& ring : sent_) count += ring.end->position + ring.end->ll_position;
  return count;
}

bool OutgoingMessages::all_confirmed() const {
  for (int kind = 0; kind < rings_.kinds(); ++kind) {
    const Ring& ring = sent_[static_cast<std::size_t>(kind)];
    if (ring.end->position != ring.consumed || ring.end->ll_position != tail_of(rings_.of(kind).ring->ll_tail))
      return false;
  }
  return true;
}

void OutgoingMessages::take_tails(const RecordHead& head) {
  Ring& outgoing = sent(head.kind);
  device::Ring& ring = *rings_.of(head.kind).ring;
  if (head.position < outgoing.consumed || head.position > outgoing.slots || head.count < tail_of(ring.ll_tail) ||
      head.count > outgoing.lines)
    fail(ErrorCode::remote_error, "{} slots and {} lines were reported as consumed, {} and {} were sent", head.position,
         head.count, outgoing.slots, outgoing.lines);
  outgoing.consumed = head.position;
  free_slots(head.kind);
  kernels::HostTarget::store_release(&ring.ll_tail.value, head.count);  // pairs with InlineMessages::has_room
}

void OutgoingMessages::free_slots(int kind) {
  const u64 consumed = sent(kind).consumed;
  const u64 free = bulk_ ? std::min(consumed, bulk_->first_under_way(kind, consumed)) : consumed;
  kernels::HostTarget::store_release(&rings_.of(kind).ring->tail.value, free);  // pairs with Slots::has_room
}

// False: a message had no room.
bool OutgoingMessages::append_slots(FrameWriter& frame, int kind, LongPayloads payloads) {
  Ring& outgoing = sent(kind);
  const RemoteRings::One& ring = rings_.of(kind);
  while (outgoing.slots != outgoing.end->position) {
    const device::SlotHeader& from = ring.ring->headers[outgoing.slots % device::kMostDepth];
    const bool framed = from.bytes <= setup_.most_framed_bytes;
    RecordHead head;
    head.type = framed ? RecordType::slot : RecordType::announcement;
    head.kind = static_cast<std::uint8_t>(kind);
    head.position = outgoing.slots;
    head.signature = from.signature;
    head.count = from.bytes;
    if (frame.room() == 0) return false;
    if (framed) {
      if (!append_slot(frame, head, payloads)) return false;
    } else {
      frame.append(head);
      if (!bulk_) bulk_ = std::make_unique<BulkSender>(rings_, setup_.rank, setup_.nonce, setup_.buffers);
      bulk_->push({kind, outgoing.slots, from.signature, from.bytes}, buffer_of(kind, outgoing.slots));
    }
    ++outgoing.slots;
  }
  return true;
}

// Null: the payload is in its slot.
const std::byte* OutgoingMessages::buffer_of(int kind, u64 position) const {
  return reinterpret_cast<const std::byte*>(rings_.of(kind).ring->headers[position % device::kMostDepth].lent);
}

// The slot is not freed before the peer has consumed the message. A payload in a buffer stays there until the call has
// ended, for which it must have been sent.
const std::byte* OutgoingMessages::payload_of(const RecordHead& head) const {
  const std::byte* const buffer = buffer_of(head.kind, head.position);
  if (buffer != nullptr) return buffer;
  return reinterpret_cast<const std::byte*>(rings_.of(head.kind).slot(head.position, head.count));
}

// False: not all of the message had room.
bool OutgoingMessages::append_slot(FrameWriter& frame, RecordHead head, LongPayloads payloads) {
  std::size_t& sent = this->sent(head.kind).bytes_of_slot;
  const std::size_t left = head.count - sent;
  const bool stays = payloads == LongPayloads::stay_in_slots && left >= kLeastPartInPlace;
  const std::byte* const payload = payload_of(head) + sent;
  constexpr std::size_t kPageBeginRecord = sizeof(RecordHead) + kCopiedPageBegin;
  const bool begins = stays && begins_page(payload) && frame.room() >= kPageBeginRecord;
  const std::size_t room = stays ? frame.room_in_place() - (begins ? kPageBeginRecord : 0) : frame.room();
  const std::size_t part = std::min(left, room);
  // A payload that stays is not cut for what is in the frame already.
  if (part < left && (part < kLeastPartBytes || (stays && !frame.empty()))) return false;
  head.incomplete = 1;
  const auto add = [&](std::size_t begin, std::size_t end) {
    head.offset = static_cast<u32>(sent + begin);
    head.bytes = static_cast<u32>(end - begin);
    if (end == left) head.incomplete = 0;
  };
  const std::size_t copied = begins ? kCopiedPageBegin : stays ? 0 : part;
  if (copied > 0 || part == 0) {
    add(0, copied);
    if (std::byte* const place = frame.append(head); copied > 0) std::memcpy(place, payload, copied);
  }
  if (copied < part) {
    add(copied, part);
    frame.append_in_place(head, payload + copied);
  }
  sent = part < left ? sent + part : 0;
  return part == left;
}

bool OutgoingMessages::append_lines(FrameWriter& frame, int kind) {
  Ring& outgoing = sent(kind);
  const RemoteRings::One& ring = rings_.of(kind);
  while (outgoing.lines != outgoing.end->ll_position) {
    // A piece that was begun ends where it was said to end, also when more was published meanwhile.
    if (outgoing.lines_of_piece == 0)
      outgoing.end_of_piece = std::min<u64>(outgoing.end->ll_position, end_of_round(outgoing.lines, ring.inline_lines));
    const u64 end = outgoing.end_of_piece;
    const u64 all = lines_in_memory(outgoing.lines, end, ring);
    const u64 left = all - outgoing.lines_of_piece;
    const u64 count = std::min<u64>(left, frame.room() / device::kCacheLineBytes);
    if (count == 0) return false;
    RecordHead head;
    head.type = RecordType::lines;
    head.kind = static_cast<std::uint8_t>(kind);
    head.incomplete = count < left ? 1 : 0;
    head.bytes = static_cast<u32>(count * device::kCacheLineBytes);
    head.position = outgoing.lines;
    head.count = end;
    head.offset = outgoing.lines_of_piece;
    std::memcpy(frame.append(head), ring.line(outgoing.lines % ring.inline_lines + outgoing.lines_of_piece),
                head.bytes);
    outgoing.lines_of_piece += static_cast<u32>(count);
    if (count < left) return false;
    outgoing.lines = end;
    outgoing.lines_of_piece = 0;
  }
  return true;
}

}  // namespace sccl::runtime
