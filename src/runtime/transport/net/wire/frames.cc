#include "runtime/transport/net/wire/frames.h"

#include <utility>

#include "base/error.h"

namespace sccl::runtime {

void FrameBuffers::register_with(net::Connection& connection) {
  registration_ = connection.register_memory(memory_.get(), kCount * kFrameBytes, net::MemoryKind::host);
}

bool FrameSender::connected() {
  if (sender_) return true;
  sender_ = connector_->poll();
  if (!sender_) return false;
  connector_.reset();
  buffers_.register_with(*sender_);
  return true;
}

FrameWriter* FrameSender::begin() {
  if (!reap() || written_ - left_ == FrameBuffers::kCount) return nullptr;
  writer_ = FrameWriter(buffers_.of(written_), nonce_, static_cast<std::uint32_t>(written_));
  return &writer_;
}

void FrameSender::post() {
  unposted_ = writer_.finish();
  unposted_payload_ = writer_.payload_in_place();
  ++written_;
  reap();
}

void FrameSender::drop_sent() {
  while (left_ < posted_ && sender_->test(requests_[left_ % FrameBuffers::kCount])) ++left_;
}

// False: a frame waits for the engine.
bool FrameSender::reap() {
  drop_sent();
  if (posted_ == written_) return true;
  const net::Request request = unposted_payload_.empty()
                                   ? sender_->isend(unposted_.data(), unposted_.size(), buffers_.registration())
                                   : sender_->isend_joined(unposted_, unposted_payload_);
  if (!request) return false;
  requests_[posted_++ % FrameBuffers::kCount] = request;
  drop_sent();  // mostly the engine has sent it at once
  return true;
}

bool FrameSender::settled() {
  if (!sender_) return written_ == 0;
  return reap() && left_ == written_;
}

FrameReceiver::FrameReceiver(std::unique_ptr<net::Receiver> receiver, std::uint64_t nonce, std::uint64_t taken,
                             Taker taker)
    : nonce_(nonce), taker_(std::move(taker)), receiver_(std::move(receiver)), posted_(taken), taken_(taken) {
  shown_ = receiver_->deliver_to(
      [this](std::span<const std::byte> frame, std::span<const std::byte> in_place) { take_shown(frame, in_place); });
  if (shown_) return;
  buffers_ = std::make_unique<FrameBuffers>();
  buffers_->register_with(*receiver_);
}

FrameReceiver::~FrameReceiver() {
  if (buffers_) buffers_->drop_registration();
}

bool FrameReceiver::receive() {
  if (!shown_) return receive_posted();
  if (error_) std::rethrow_exception(error_);
  receiver_->check();
  return std::exchange(any_, false);
}

void FrameReceiver::take(std::span<const std::byte> frame, std::span<const std::byte> in_place) {
  FrameReader reader(frame, nonce_, static_cast<std::uint32_t>(taken_), in_place);
  RecordHead head;
  std::span<const std::byte> payload;
  while (reader.next(head, payload)) taker_(head, payload);
  ++taken_;
}

// An error waits for receive(): the engine that shows the frame must not see it. Nothing is taken after an error.
void FrameReceiver::take_shown(std::span<const std::byte> frame, std::span<const std::byte> in_place) noexcept {
  any_ = true;
  if (error_) return;
  try {
    if (const std::size_t bytes = frame.size() + in_place.size(); bytes > kMostFrameBytes)
      fail(ErrorCode::remote_error, "a frame of {} bytes came, {} is the most", bytes, kMostFrameBytes);
    take(frame, in_place);
  } catch (...) {
    error_ = std::current_exception();
  }
}

bool FrameReceiver::receive_posted() {
  post();
  bool any = false;
  for (; taken_ < posted_; post(), any = true) {
    const auto bytes = receiver_->test(requests_[taken_ % FrameBuffers::kCount]);
    if (!bytes) break;
    take(buffers_->of(taken_).first(*bytes));
  }
  return any;
}

void FrameReceiver::post() {
  for (; posted_ - taken_ < FrameBuffers::kCount; ++posted_) {
    const auto buffer = buffers_->of(posted_);
    const net::Request request = receiver_->irecv(buffer.data(), buffer.size(), buffers_->registration());
    if (!request) return;
    requests_[posted_ % FrameBuffers::kCount] = request;
  }
}

Guest::Guest(std::unique_ptr<net::Receiver> receiver, std::uint64_t nonce)
    : nonce_(nonce),
      receiver_(std::move(receiver)),
      registration_(receiver_->register_memory(buffer_->data(), buffer_->size(), net::MemoryKind::host)) {}

std::optional<int> Guest::rank() {
  if (!request_) request_ = receiver_->irecv(buffer_->data(), buffer_->size(), *registration_);
  if (!request_) return std::nullopt;
  const auto bytes = receiver_->test(request_);
  if (!bytes) return std::nullopt;
  const std::span<const std::byte> buffer(*buffer_);
  FrameReader reader(buffer.first(*bytes), nonce_, 0);
  RecordHead head;
  std::span<const std::byte> payload;
  if (!reader.next(head, payload) || head.type != RecordType::hello)
    fail(ErrorCode::remote_error, "a connection of another kind came");
  return static_cast<int>(head.position);
}

std::unique_ptr<net::Receiver> Guest::take_receiver() {
  registration_.reset();
  return std::move(receiver_);
}

RecordHead hello_of(int rank) {
  RecordHead head;
  head.type = RecordType::hello;
  head.position = static_cast<std::uint64_t>(rank);
  return head;
}

}  // namespace sccl::runtime
