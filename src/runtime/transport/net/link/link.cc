#include "runtime/transport/net/link/link.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace sccl::runtime {
namespace {

constexpr std::chrono::milliseconds kLastFrames{20};

}  // namespace

Link::Link(const Setup& setup)
    : setup_(setup),
      out_({setup.shape, setup.rank, setup.nonce, setup.net.most_copied_bytes(), setup.buffers}),
      in_({setup.net, setup.device, setup.nonce, setup.peer, setup.shape, setup.buffers}) {}

void Link::attach(const EndRequest& request, kernels::HostConnection& end) {
  if (request.direction == schedule::Direction::outgoing)
    out_.attach(request, end);
  else
    in_.attach(request, end);
}

void Link::open(const net::Handle& address) {
  if (frames_out_) return;
  frames_out_ = std::make_unique<FrameSender>(setup_.net.connect(setup_.device, address), setup_.nonce);
}

void Link::accept(std::unique_ptr<net::Receiver> receiver) {
  if (frames_in_) fail(ErrorCode::remote_error, "a second connection came");
  frames_in_ = std::make_unique<FrameReceiver>(
      std::move(receiver), setup_.nonce, Guest::kTaken,
      [this](const RecordHead& head, std::span<const std::byte> payload) { take(head, payload); });
}

void Link::close() {
  frames_in_.reset();  // first: closing drives the engine, which may show frames
  in_.close();
  out_.close();
  frames_out_.reset();
}

bool Link::receive() {
  bool any = frames_in_ && frames_in_->receive();
  any = in_.receive_bulk() || any;
  if (any && loss_) loss_->last_frames = std::chrono::steady_clock::now();
  return any;
}

void Link::take(const RecordHead& head, std::span<const std::byte> payload) {
  if (head.kind >= setup_.shape.count()) fail(ErrorCode::remote_error, "a record of kind {} came", head.kind);
  switch (head.type) {
    case RecordType::slot:
      return in_.take_slot(head, payload);
    case RecordType::announcement:
      return in_.take_announcement(head);
    case RecordType::lines:
      return in_.take_lines(head, payload);
    case RecordType::tails:
      return out_.take_tails(head);
    case RecordType::bulk_address:
      if (out_.take_bulk_address(net::Handle(payload.begin(), payload.end()))) return;
      break;
    case RecordType::farewell:
      owes_answer_ = true;
      return;
    case RecordType::farewell_seen:
      parted_ = said_farewell_;
      return;
    case RecordType::put:
      return setup_.windows.take(setup_.peer, head, payload);
    case RecordType::hello:
      break;
  }
  fail(ErrorCode::remote_error, "a record of type {} came that has no place here", static_cast<int>(head.type));
}

bool Link::owes_control() const {
  return !said_hello_ || in_.untold_address() != nullptr || owes_farewell_ || owes_answer_;
}

bool Link::owes(Tails tails) const {
  return out_.has_news() || owes_control() || puts_.has_news() || in_.tails_due(tails);
}

bool Link::send(Tails tails) {
  if (!frames_out_ || !frames_out_->connected()) return false;
  const auto has_nothing_to_send = [&] { return !owes(tails) && frames_out_->rests() && out_.rests(); };
  rests_ = has_nothing_to_send();
  const bool any = !rests_ && send_frames(tails);
  if (any) rests_ = has_nothing_to_send();
  check_sender();
  return any;
}

bool Link::send_frames(Tails tails) {
  out_.connect_bulk(setup_.net, setup_.device);
  bool any = out_.step();
  for (bool more = true; more && owes(tails);) {
    FrameWriter* const frame = frames_out_->begin();
    if (frame == nullptr) break;
    more = fill(*frame);
    if (frame->empty()) break;
    frames_out_->post();
    any = true;
  }
  frames_out_->step();
  out_.step();
  return any;
}

void Link::check_sender() {
  if (!loss_) {
    try {
      frames_out_->check();
      return;
    } catch (const Error&) {
      loss_ = Loss{std::current_exception(), std::chrono::steady_clock::now()};
    }
  }
  if (std::chrono::steady_clock::now() - loss_->last_frames > kLastFrames) std::rethrow_exception(loss_->reason);
}

// True: not all had room.
bool Link::fill(FrameWriter& frame) {
  if (!said_hello_) {
    frame.append(hello_of(setup_.rank));
    return said_hello_ = true;  // the first frame has nothing else
  }
  in_.append_tails(frame);
  const auto payloads =
      frames_out_->joins() ? OutgoingMessages::LongPayloads::stay_in_slots : OutgoingMessages::LongPayloads::copied;
  if (!out_.append(frame, payloads) || (puts_.has_news() && !puts_.append(frame))) return true;
  return owes_control() && !append_control(frame);
}

// A farewell comes after everything else.
bool Link::append_control(FrameWriter& frame) {
  const auto append = [&](RecordType type, std::span<const std::byte> payload) {
    if (frame.room() <= payload.size()) return false;
    RecordHead head;
    head.type = type;
    head.bytes = static_cast<device::u32>(payload.size());
    std::byte* const at = frame.append(head);
    if (!payload.empty()) std::memcpy(at, payload.data(), payload.size());
    return true;
  };
  if (const net::Handle* const address = in_.untold_address();
      address != nullptr && append(RecordType::bulk_address, *address))
    in_.address_was_told();
  // Payloads that were announced before it may still be on their way.
  if (owes_answer_ && in_.settled()) owes_answer_ = !append(RecordType::farewell_seen, {});
  if (owes_farewell_ && append(RecordType::farewell, {})) {
    owes_farewell_ = false;
    said_farewell_ = true;
  }
  return in_.untold_address() == nullptr && !owes_farewell_;
}

}  // namespace sccl::runtime
