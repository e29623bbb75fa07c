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
  unposted_bytes_ = writer_.finish().size();
  ++written_;
  reap();
}

// False: a frame waits for the engine.
bool FrameSender::reap() {
  while (left_ < posted_ && sender_->test(requests_[left_ % FrameBuffers::kCount])) ++left_;
  if (posted_ == written_) return true;
  const net::Request request = sender_->isend(buffers_.of(posted_).data(), unposted_bytes_, buffers_.registration());
  if (!request) return false;
  requests_[posted_++ % FrameBuffers::kCount] = request;
  return true;
}

bool FrameSender::settled() {
  if (!sender_) return written_ == 0;
  return reap() && left_ == written_;
}

FrameReceiver::FrameReceiver(std::unique_ptr<net::Receiver> receiver, std::uint64_t nonce, std::uint64_t taken)
    : nonce_(nonce), receiver_(std::move(receiver)), posted_(taken), taken_(taken) {
  buffers_.register_with(*receiver_);
}

void FrameReceiver::post() {
  for (; posted_ - taken_ < FrameBuffers::kCount; ++posted_) {
    const auto buffer = buffers_.of(posted_);
    const net::Request request = receiver_->irecv(buffer.data(), buffer.size(), buffers_.registration());
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
