#include "runtime/transport/net/link/bulk.h"

#include "base/error.h"
#include "base/settings/log.h"

namespace sccl::runtime {

net::Registration& SlotRegistrations::of(int kind, net::Connection& connection) {
  auto& made = made_[static_cast<std::size_t>(kind)];
  if (!made) {
    const RemoteRings::One& ring = rings_.of(kind);
    made = connection.register_memory(ring.payload, ring.payload_bytes(), net::MemoryKind::host);
  }
  return *made;
}

BulkSender::BulkSender(RemoteRings& rings, int own_rank, std::uint64_t nonce) : rings_(rings), registrations_(rings) {
  FrameWriter writer(hello_, nonce, 0);
  writer.append(hello_of(own_rank));
  writer.finish();
}

BulkSender::~BulkSender() {
  registrations_.drop();
  hello_registration_.reset();
}

bool BulkSender::connected() {
  if (!sender_) {
    if (!connector_) return false;
    sender_ = connector_->poll();
    if (!sender_) return false;
    connector_.reset();
    hello_registration_ = sender_->register_memory(hello_.data(), hello_.size(), net::MemoryKind::host);
  }
  if (!hello_request_) hello_request_ = sender_->isend(hello_.data(), hello_.size(), *hello_registration_);
  if (hello_request_ && !greeted_) greeted_ = sender_->test(hello_request_).has_value();
  return greeted_;
}

bool BulkSender::step() {
  if (messages_.empty() || !connected()) return false;
  bool any = false;
  for (; posted_ > 0 && sender_->test(messages_.front().request); --posted_, any = true) messages_.pop_front();
  for (; posted_ < messages_.size() && posted_ < net::kMostRequests; ++posted_) {
    BulkMessage& message = messages_[posted_];
    message.request = sender_->isend(rings_.of(message.kind).slot(message.position), message.bytes,
                                     registrations_.of(message.kind, *sender_));
    if (!message.request) break;
  }
  return any;
}

device::u64 BulkSender::first_under_way(int kind, device::u64 otherwise) const {
  for (const BulkMessage& message : messages_)
    if (message.kind == kind) return message.position;
  return otherwise;
}

bool BulkReceiver::connected(int peer) {
  if (receiver_) return true;
  if (!guest_) {
    auto accepted = listener_->accept();
    if (!accepted) return false;
    guest_ = std::make_unique<Guest>(std::move(accepted), nonce_);
  }
  try {
    const auto rank = guest_->rank();
    if (!rank) return false;
    if (*rank != peer) fail(ErrorCode::remote_error, "rank {} made it", *rank);
    receiver_ = guest_->take_receiver();
    guest_.reset();
    listener_.reset();
    return true;
  } catch (const Error& error) {
    log::info(log::Subsystem::net, "a connection where rank {}'s payloads are awaited is dropped: {}", peer,
              error.what());
    guest_.reset();
    return false;
  }
}

void BulkReceiver::post() {
  for (; posted_ < messages_.size() && posted_ < net::kMostRequests; ++posted_) {
    BulkMessage& message = messages_[posted_];
    message.request = receiver_->irecv(rings_.of(message.kind).slot(message.position), message.bytes,
                                       registrations_.of(message.kind, *receiver_));
    if (!message.request) return;
  }
}

bool BulkReceiver::complete(const BulkMessage& message) {
  const auto bytes = receiver_->test(message.request);
  if (!bytes) return false;
  if (*bytes != message.bytes)
    fail(ErrorCode::remote_error, "a payload of {} bytes came where one of {} was announced", *bytes, message.bytes);
  return true;
}

}  // namespace sccl::runtime
