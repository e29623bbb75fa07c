#include "runtime/transport/net/link.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "kernels/host/target.h"

namespace sccl::runtime {
namespace {

using device::u32;
using device::u64;
using kernels::HostTarget;

u64 tail_of(const device::Tail& tail) { return HostTarget::load_acquire(&tail.value); }

// Where the piece of lines that begins at `position` ends at the latest: messages do not wrap.
u64 end_of_round(u64 position, u32 lines) { return (position / lines + 1) * lines; }

// Lines that lie in memory for a piece: at the end of the ring all those behind it come, too.
u64 lines_in_memory(u64 begin, u64 end, const RemoteRings::One& ring) {
  return end - begin + (end % ring.inline_lines == 0 ? ring.tail_lines : 0);
}

}  // namespace

Link::Link(const Setup& setup)
    : setup_(setup),
      rings_out_(setup.kinds, setup.layout),
      rings_in_(setup.kinds, setup.layout),
      out_(static_cast<std::size_t>(setup.kinds), Outgoing{.end = &unused_}),
      in_(static_cast<std::size_t>(setup.kinds)),
      most_framed_bytes_(std::min(setup.net.most_copied_bytes(), FrameWriter::most_payload_bytes(kFrameBytes))) {}

void Link::attach(const EndRequest& request, kernels::HostConnection& end) {
  const bool sends = request.direction == schedule::Direction::outgoing;
  RemoteRings::One& ring = (sends ? rings_out_ : rings_in_).of(request.kind);
  end.ring = ring.ring;
  end.payload = ring.payload;
  end.slot_bytes = ring.slot_bytes;
  end.depth = ring.depth;
  end.inline_lines = ring.inline_lines;
  end.inline_messages = ring.inline_messages;
  end.stale_lines = sends ? ring.stale_lines.data() : nullptr;
  end.shared_slots = nullptr;
  end.peer = request.peer;
  end.peer_process = 0;
  end.maps_buffers = false;
  if (sends) out(request.kind).end = &end;
}

void Link::open(const net::Handle& address) {
  if (frames_out_) return;
  frames_out_ = std::make_unique<FrameSender>(setup_.net.connect(setup_.device, address), setup_.nonce);
}

void Link::accept(std::unique_ptr<net::Receiver> receiver) {
  if (frames_in_) fail(ErrorCode::remote_error, "a second connection came");
  frames_in_ = std::make_unique<FrameReceiver>(std::move(receiver), setup_.nonce, Guest::kTaken);
}

void Link::close() {
  bulk_in_.reset();
  bulk_out_.reset();
  frames_in_.reset();
  frames_out_.reset();
}

bool Link::receive() {
  bool any = false;
  if (frames_in_)
    any = frames_in_->receive(
        [this](const RecordHead& head, std::span<const std::byte> payload) { take(head, payload); });
  if (bulk_in_)
    any = bulk_in_->receive(setup_.peer, [this](const BulkMessage& message) {
      publish(message.kind, message.position, message.signature, message.bytes);
    }) || any;
  return any;
}

void Link::take(const RecordHead& head, std::span<const std::byte> payload) {
  if (head.kind >= setup_.kinds) fail(ErrorCode::remote_error, "a record of kind {} came", head.kind);
  switch (head.type) {
    case RecordType::slot:
      return take_slot(head, payload);
    case RecordType::announcement:
      return take_announcement(head);
    case RecordType::lines:
      return take_lines(head, payload);
    case RecordType::tails:
      return take_tails(head);
    case RecordType::bulk_address:
      if (!bulk_out_) break;
      return bulk_out_->connect(setup_.net.connect(setup_.device, net::Handle(payload.begin(), payload.end())));
    case RecordType::farewell:
      owes_answer_ = true;
      return;
    case RecordType::farewell_seen:
      parted_ = said_farewell_;
      return;
    case RecordType::hello:
      break;
  }
  fail(ErrorCode::remote_error, "a record of type {} came that has no place here", static_cast<int>(head.type));
}

// The place of a message in its ring, which has room for it.
u64 Link::next_slot(const RecordHead& head, std::size_t bytes) {
  Incoming& incoming = in(head.kind);
  const RemoteRings::One& ring = rings_in_.of(head.kind);
  if (head.position != incoming.slots)
    fail(ErrorCode::remote_error, "message {} came where message {} was expected", head.position, incoming.slots);
  if (incoming.slots - tail_of(ring.ring->tail) >= ring.depth)
    fail(ErrorCode::remote_error, "message {} came into a full ring of {} slots", head.position, ring.depth);
  if (bytes > ring.slot_bytes)
    fail(ErrorCode::remote_error, "a message of {} bytes came for a slot of {}", bytes, ring.slot_bytes);
  return incoming.slots++;
}

void Link::take_slot(const RecordHead& head, std::span<const std::byte> payload) {
  const u64 position = next_slot(head, payload.size());
  if (!payload.empty()) std::memcpy(rings_in_.of(head.kind).slot(position), payload.data(), payload.size());
  publish(head.kind, position, head.signature, payload.size());
}

void Link::take_announcement(const RecordHead& head) {
  const u64 position = next_slot(head, head.count);
  if (!bulk_in_) {
    bulk_in_ = std::make_unique<BulkReceiver>(rings_in_, setup_.net.listen(setup_.device), setup_.nonce);
    owes_bulk_address_ = true;
  }
  bulk_in_->expect({head.kind, position, head.signature, static_cast<std::size_t>(head.count)});
}

void Link::publish(int kind, u64 position, u32 signature, std::size_t bytes) {
  device::SlotHeader& header = rings_in_.of(kind).ring->headers[position % device::kMostDepth];
  header.signature = signature;
  header.bytes = bytes;
  header.lent = 0;
  HostTarget::store_release(&header.flag, position + 1);  // pairs with Slots::arrived
}

// The first word of a piece is kept back until the piece is whole: the interpreter takes a message as a whole.
void Link::take_lines(const RecordHead& head, std::span<const std::byte> payload) {
  Incoming& incoming = in(head.kind);
  const RemoteRings::One& ring = rings_in_.of(head.kind);
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
  HostTarget::store_relaxed(reinterpret_cast<u64*>(ring.line(end % ring.inline_lines)), 0);
  HostTarget::store_release(reinterpret_cast<u64*>(first), incoming.first_word);  // pairs with InlineMessages::begun
  incoming.lines = end;
  incoming.lines_of_piece = 0;
}

void Link::take_tails(const RecordHead& head) {
  Outgoing& outgoing = out(head.kind);
  device::Ring& ring = *rings_out_.of(head.kind).ring;
  if (head.position < outgoing.consumed || head.position > outgoing.slots || head.count < tail_of(ring.ll_tail) ||
      head.count > outgoing.lines)
    fail(ErrorCode::remote_error, "{} slots and {} lines were reported as consumed, {} and {} were sent", head.position,
         head.count, outgoing.slots, outgoing.lines);
  outgoing.consumed = head.position;
  free_slots(head.kind);
  HostTarget::store_release(&ring.ll_tail.value, head.count);  // pairs with InlineMessages::has_room
}

void Link::free_slots(int kind) {
  const u64 consumed = out(kind).consumed;
  const u64 free = bulk_out_ ? std::min(consumed, bulk_out_->first_under_way(kind, consumed)) : consumed;
  HostTarget::store_release(&rings_out_.of(kind).ring->tail.value, free);  // pairs with Slots::has_room
}

bool Link::changed_tails(int kind) const {
  const Incoming& incoming = in(kind);
  const device::Ring& ring = *const_cast<RemoteRings&>(rings_in_).of(kind).ring;
  return tail_of(ring.tail) != incoming.told_slots || tail_of(ring.ll_tail) != incoming.told_lines;
}

bool Link::tails_due(int kind, Tails tails) const {
  if (!changed_tails(kind)) return false;
  if (tails == Tails::all) return true;
  const RemoteRings::One& ring = const_cast<RemoteRings&>(rings_in_).of(kind);
  return tail_of(ring.ring->tail) - in(kind).told_slots >= ring.depth / 2 ||
         tail_of(ring.ring->ll_tail) - in(kind).told_lines >= ring.inline_lines / 4;
}

bool Link::has_news() const {
  if (!said_hello_ || owes_bulk_address_ || owes_farewell_ || owes_answer_) return true;
  for (const Outgoing& outgoing : out_)
    if (outgoing.end->position != outgoing.slots || outgoing.end->ll_position != outgoing.lines) return true;
  return false;
}

bool Link::send(Tails tails) {
  if (!frames_out_ || !frames_out_->connected()) return false;
  bool any = false;
  if (bulk_out_ && bulk_out_->step()) {
    any = true;
    for (int kind = 0; kind < setup_.kinds; ++kind) free_slots(kind);
  }
  for (bool more = true; more;) {
    bool due = has_news();
    for (int kind = 0; kind < setup_.kinds && !due; ++kind) due = tails_due(kind, tails);
    if (!due) break;
    FrameWriter* const frame = frames_out_->begin();
    if (frame == nullptr) break;
    more = fill(*frame);
    if (frame->empty()) break;
    frames_out_->post();
    any = true;
  }
  if (bulk_out_) bulk_out_->step();
  return any;
}

// True: not all had room.
bool Link::fill(FrameWriter& frame) {
  if (!said_hello_) {
    frame.append(hello_of(setup_.rank));
    return said_hello_ = true;  // the first frame has nothing else
  }
  for (int kind = 0; kind < setup_.kinds; ++kind) append_tails(frame, kind);
  for (int kind = 0; kind < setup_.kinds; ++kind)
    if (!append_slots(frame, kind) || !append_lines(frame, kind)) return true;
  return !append_control(frame);
}

void Link::append_tails(FrameWriter& frame, int kind) {
  if (!changed_tails(kind) || frame.room() == 0) return;
  const device::Ring& ring = *rings_in_.of(kind).ring;
  Incoming& incoming = in(kind);
  RecordHead head;
  head.type = RecordType::tails;
  head.kind = static_cast<std::uint8_t>(kind);
  head.position = incoming.told_slots = tail_of(ring.tail);
  head.count = incoming.told_lines = tail_of(ring.ll_tail);
  frame.append(head);
}

// False: a message had no room.
bool Link::append_slots(FrameWriter& frame, int kind) {
  Outgoing& outgoing = out(kind);
  const RemoteRings::One& ring = rings_out_.of(kind);
  while (outgoing.slots != outgoing.end->position) {
    const device::SlotHeader& from = ring.ring->headers[outgoing.slots % device::kMostDepth];
    const bool framed = from.bytes <= most_framed_bytes_;
    RecordHead head;
    head.type = framed ? RecordType::slot : RecordType::announcement;
    head.kind = static_cast<std::uint8_t>(kind);
    head.position = outgoing.slots;
    head.signature = from.signature;
    head.bytes = framed ? static_cast<u32>(from.bytes) : 0;
    head.count = from.bytes;
    if (frame.room() <= head.bytes) return false;
    std::byte* const payload = frame.append(head);
    if (framed) {
      std::memcpy(payload, ring.slot(outgoing.slots), from.bytes);
    } else {
      if (!bulk_out_) bulk_out_ = std::make_unique<BulkSender>(rings_out_, setup_.rank, setup_.nonce);
      bulk_out_->push({kind, outgoing.slots, from.signature, from.bytes});
    }
    ++outgoing.slots;
  }
  return true;
}

bool Link::append_lines(FrameWriter& frame, int kind) {
  Outgoing& outgoing = out(kind);
  const RemoteRings::One& ring = rings_out_.of(kind);
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

// A farewell comes after everything else.
bool Link::append_control(FrameWriter& frame) {
  const auto append = [&](RecordType type, std::span<const std::byte> payload) {
    if (frame.room() <= payload.size()) return false;
    RecordHead head;
    head.type = type;
    head.bytes = static_cast<u32>(payload.size());
    std::byte* const at = frame.append(head);
    if (!payload.empty()) std::memcpy(at, payload.data(), payload.size());
    return true;
  };
  if (owes_bulk_address_) owes_bulk_address_ = !append(RecordType::bulk_address, bulk_in_->address());
  // Payloads that were announced before it may still be on their way.
  if (owes_answer_ && (!bulk_in_ || bulk_in_->settled())) owes_answer_ = !append(RecordType::farewell_seen, {});
  if (owes_farewell_ && append(RecordType::farewell, {})) {
    owes_farewell_ = false;
    said_farewell_ = true;
  }
  return !owes_bulk_address_ && !owes_farewell_;
}

bool Link::settled() {
  if (!frames_out_) return true;
  const bool published = std::all_of(out_.begin(), out_.end(), [](const Outgoing& outgoing) {
    return outgoing.end->position == outgoing.slots && outgoing.end->ll_position == outgoing.lines;
  });
  return published && frames_out_->settled() && (!bulk_out_ || bulk_out_->settled());
}

bool Link::has_sent() const {
  return std::any_of(out_.begin(), out_.end(), [](const Outgoing& outgoing) {
    return outgoing.end->position > 0 || outgoing.end->ll_position > 0;
  });
}

}  // namespace sccl::runtime
