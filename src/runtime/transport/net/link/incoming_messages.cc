#include "runtime/transport/net/link/incoming_messages.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "runtime/transport/net/link/lines.h"

namespace sccl::runtime {

using device::u32;
using device::u64;

IncomingMessages::IncomingMessages(const Setup& setup)
    : setup_(setup), rings_(setup.shape), come_(setup.shape.kinds.size()) {}

void IncomingMessages::attach(const EndRequest& request, kernels::HostConnection& end) {
  rings_.of(request.kind).attach(request.peer, end);
  end.stale_lines = nullptr;
  end.landing = &come(request.kind).landing;
}

bool IncomingMessages::receive_bulk() {
  return bulk_ && bulk_->receive(setup_.peer, [this](const BulkMessage& message) { publish(message, message.place); });
}

// The message is the next one, and its ring has room for it.
void IncomingMessages::check_slot(const RecordHead& head) const {
  const Ring& incoming = come(head.kind);
  const RemoteRings::One& ring = rings_.of(head.kind);
  if (head.position != incoming.slots)
    fail(ErrorCode::remote_error, "message {} came where message {} was expected", head.position, incoming.slots);
  if (const u32 depth = kernels::depth_for(ring, head.count); incoming.slots - tail_of(ring.ring->tail) >= depth)
    fail(ErrorCode::remote_error, "message {} came into a full ring of {} slots", head.position, depth);
  if (head.count > ring.slot_bytes)
    fail(ErrorCode::remote_error, "a message of {} bytes came for a slot of {}", head.count, ring.slot_bytes);
  if (head.offset != incoming.bytes_of_slot)
    fail(ErrorCode::remote_error, "byte {} of message {} came where byte {} was expected", head.offset, head.position,
         incoming.bytes_of_slot);
  // A kernel looks for a message by its length.
  const bool is_long = head.type == RecordType::announcement;
  if (rings_.device_slots() != nullptr && is_long != (head.count > setup_.shape.most_short_bytes))
    fail(ErrorCode::remote_error, "a message of {} bytes came {}", head.count, is_long ? "by itself" : "in a frame");
}

void IncomingMessages::take_slot(const RecordHead& head, std::span<const std::byte> payload) {
  check_slot(head);
  const u64 end = head.offset + payload.size();
  const bool whole = head.incomplete == 0;
  if (end > head.count || whole != (end == head.count))
    fail(ErrorCode::remote_error, "{} bytes came at {} of a message of {}", payload.size(), head.offset, head.count);
  Ring& incoming = come(head.kind);
  const device::u8* const place =
      incoming.landing.store({head.position, head.signature, head.count, head.offset, payload});
  if (place == nullptr && !payload.empty())
    std::memcpy(rings_.of(head.kind).slot(head.position, head.count) + head.offset, payload.data(), payload.size());
  incoming.bytes_of_slot = whole ? 0 : end;
  if (!whole) return;
  ++incoming.slots;
  publish({head.kind, head.position, head.signature, static_cast<std::size_t>(head.count)}, place);
}

void IncomingMessages::take_announcement(const RecordHead& head) {
  check_slot(head);
  Ring& incoming = come(head.kind);
  const u64 position = incoming.slots++;
  if (!bulk_) {
    bulk_ = std::make_unique<BulkReceiver>(rings_, setup_.net.listen(setup_.device), setup_.nonce, setup_.buffers);
    owes_address_ = true;
  }
  device::u8* const place =
      setup_.buffers == nullptr ? nullptr : incoming.landing.store({position, head.signature, head.count, 0, {}});
  bulk_->expect({head.kind, position, head.signature, static_cast<std::size_t>(head.count), place});
}

void IncomingMessages::publish(const BulkMessage& message, const device::u8* place) {
  if (message.bytes == 0) come(message.kind).awaited_slots = message.position + 1;
  device::SlotHeader& header = rings_.of(message.kind).ring->headers[message.position % device::kMostDepth];
  header.signature = message.signature;
  header.bytes = message.bytes;
  header.lent = reinterpret_cast<u64>(place);
  const u64 flag = setup_.shape.flags == FlagForm::with_signature
                       ? device::signed_flag(message.signature, message.position)
                       : message.position + 1;
  kernels::HostTarget::store_release(&header.flag, flag);  // pairs with Slots::sight
}

u64 IncomingMessages::received() const {
  u64 count = 0;
  for (const Ring& ring : come_) count += ring.slots + ring.lines;
  return bulk_ ? count - bulk_->awaited() : count;
}

// The first word of a piece is kept back until the piece is whole: the interpreter takes a message as a whole.
void IncomingMessages::take_lines(const RecordHead& head, std::span<const std::byte> payload) {
  Ring& incoming = come(head.kind);
  const RemoteRings::One& ring = rings_.of(head.kind);
  const u64 begin = incoming.lines;
  const u64 end = head.count;
  if (head.position != begin || head.offset != incoming.lines_of_piece)
    fail(ErrorCode::remote_error, "line {}+{} came where line {}+{} was expected", head.position, head.offset, begin,
         incoming.lines_of_piece);
  if (end <= begin || end > end_of_round(begin, ring.inline_lines) ||
      end - tail_of(ring.ring->ll_tail) >= ring.inline_lines)
    fail(ErrorCode::remote_error, "lines {} to {} came, {} are consumed of a ring of {}", begin, end,
         tail_of(ring.ring->ll_tail), ring.inline_lines);
  const u64 all = lines_in_memory(begin, end, ring);
  const u64 count = payload.size() / device::kCacheLineBytes;
  const bool whole = head.incomplete == 0;
  if (count == 0 || payload.size() % device::kCacheLineBytes != 0 || head.offset + count > all ||
      whole != (head.offset + count == all))
    fail(ErrorCode::remote_error, "{} bytes of lines came at {} of {}", payload.size(), head.offset, all);

  device::u8* const first = ring.line(begin % ring.inline_lines);
  const std::size_t kept_back = head.offset == 0 ? sizeof incoming.first_word : 0;
  if (kept_back != 0) std::memcpy(&incoming.first_word, payload.data(), kept_back);
  std::memcpy(first + head.offset * device::kCacheLineBytes + kept_back, payload.data() + kept_back,
              payload.size() - kept_back);
  incoming.lines_of_piece += static_cast<u32>(count);
  if (!whole) return;
  kernels::HostTarget::store_relaxed(reinterpret_cast<u64*>(ring.line(end % ring.inline_lines)), 0);
  kernels::HostTarget::store_release(reinterpret_cast<u64*>(first),
                                     incoming.first_word);  // pairs with InlineMessages::begun
  incoming.lines = end;
  incoming.lines_of_piece = 0;
}

inline bool IncomingMessages::changed_tails(int kind) const {
  const Ring& incoming = come(kind);
  const device::Ring& ring = *rings_.of(kind).ring;
  return tail_of(ring.tail) != incoming.told_slots || tail_of(ring.ll_tail) != incoming.told_lines;
}

bool IncomingMessages::tails_due(Tails tails) const {
  const auto is_due = [&](int kind) {
    if (!changed_tails(kind)) return false;
    const RemoteRings::One& ring = rings_.of(kind);
    const Ring& incoming = come(kind);
    if (tails == Tails::all || tail_of(ring.ring->tail) - incoming.told_slots >= ring.depth / 2 ||
        tail_of(ring.ring->ll_tail) - incoming.told_lines >= ring.inline_lines / 4)
      return true;
    return tails == Tails::when_wanted && (incoming.slots - incoming.told_slots >= ring.depth / 2 ||
                                           incoming.lines - incoming.told_lines >= ring.inline_lines / 2 ||
                                           incoming.awaited_slots > incoming.told_slots);
  };
  for (int kind = 0; kind < rings_.kinds(); ++kind)
    if (is_due(kind)) return true;
  return false;
}

void IncomingMessages::append_tails(FrameWriter& frame) {
  for (int kind = 0; kind < rings_.kinds(); ++kind) {
    if (!changed_tails(kind) || frame.room() == 0) continue;
    const device::Ring& ring = *rings_.of(kind).ring;
    Ring& incoming = come(kind);
    RecordHead head;
    head.type = RecordType::tails;
    head.kind = static_cast<std::uint8_t>(kind);
    head.position = incoming.told_slots = tail_of(ring.tail);
    head.count = incoming.told_lines = tail_of(ring.ll_tail);
    frame.append(head);
  }
}

}  // namespace sccl::runtime
