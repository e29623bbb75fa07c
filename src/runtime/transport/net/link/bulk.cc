#include "runtime/transport/net/link/bulk.h"

#include <algorithm>
#include <cstring>

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

net::Registration& SlotRegistrations::of_device(net::Connection& connection) {
  if (!device_) device_ = rings_.device_slots()->register_with(connection);
  return *device_;
}

void SlotRegistrations::drop() {
  made_.clear();
  device_.reset();
}

BulkSender::BulkSender(RemoteRings& rings, int own_rank, std::uint64_t nonce, const RegisteredBuffers* buffers)
    : rings_(rings), registrations_(rings), buffers_(buffers), buffers_registered_(buffers) {
  FrameWriter writer(hello_, nonce, 0);
  writer.append(hello_of(own_rank));
  writer.finish();
}

// Registrations end before their connection.
BulkSender::~BulkSender() {
  messages_.clear();
  buffers_registered_.clear();
  registrations_.drop();
  hello_registration_.reset();
}

void BulkSender::push(const BulkMessage& message, const std::byte* buffer) {
  Payload& payload = messages_.emplace_back(Payload{message});
  if (buffer == nullptr) return;
  const auto region = buffers_ != nullptr ? buffers_->find(buffer, message.bytes) : std::nullopt;
  if (!region) return copy_to_slot(payload, buffer);
  payload.buffer = buffer;
  payload.region = *region;
}

void BulkSender::copy_to_slot(Payload& payload, const std::byte* from) {
  std::memcpy(rings_.of(payload.message.kind).slot(payload.message.position, payload.message.bytes), from,
              payload.message.bytes);
  payload.buffer = nullptr;
}

bool BulkSender::reads_buffers() const {
  return std::any_of(messages_.begin(), messages_.end(), [](const Payload& one) { return one.buffer != nullptr; });
}

net::Request BulkSender::isend(Payload& payload) {
  const BulkMessage& message = payload.message;
  if (payload.buffer != nullptr && !payload.registration) {
    payload.registration = buffers_registered_.of(payload.region, *sender_);
    if (!payload.registration) copy_to_slot(payload, payload.buffer);
  }
  if (payload.buffer != nullptr) return sender_->isend(payload.buffer, message.bytes, *payload.registration);
  return isend_from_slot(payload);
}

net::Request BulkSender::isend_from_slot(Payload& payload) {
  const BulkMessage& message = payload.message;
  const RemoteRings::One& ring = rings_.of(message.kind);
  if (const SlotMemory* const memory = rings_.device_slots())
    return sender_->isend(memory->at(ring.device_slot(message.position, message.bytes)), message.bytes,
                          registrations_.of_device(*sender_));
  return sender_->isend(ring.slot(message.position, message.bytes), message.bytes,
                        registrations_.of(message.kind, *sender_));
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
  for (; posted_ > 0 && sender_->test(messages_.front().message.request); --posted_, any = true) messages_.pop_front();
  for (; posted_ < messages_.size() && posted_ < net::kMostRequests; ++posted_) {
    Payload& payload = messages_[posted_];
    payload.message.request = isend(payload);
    if (!payload.message.request) break;
  }
  return any;
}

device::u64 BulkSender::first_under_way(int kind, device::u64 otherwise) const {
  for (const Payload& one : messages_)
    if (one.message.kind == kind) return one.message.position;
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

// Registrations end before their connection, and after it nobody writes into buffers of the program.
BulkReceiver::~BulkReceiver() {
  messages_.clear();
  buffers_registered_.clear();
  registrations_.drop();
  receiver_.reset();
}

bool BulkReceiver::writes_buffers() const {
  return std::any_of(messages_.begin(), messages_.end(), [](const BulkMessage& one) { return one.place != nullptr; });
}

void BulkReceiver::post() {
  for (; posted_ < messages_.size() && posted_ < net::kMostRequests; ++posted_) {
    BulkMessage& message = messages_[posted_];
    message.request = irecv(message);
    if (!message.request) return;
  }
}

// Into the result if that is registered, else into the slot.
net::Request BulkReceiver::irecv(BulkMessage& message) {
  if (message.place != nullptr && !finds_place(message)) message.place = nullptr;
  if (message.place != nullptr) return receiver_->irecv(message.place, message.bytes, *message.registration);
  const RemoteRings::One& ring = rings_.of(message.kind);
  if (const SlotMemory* const memory = rings_.device_slots())
    return receiver_->irecv(memory->at(ring.device_slot(message.position, message.bytes)), message.bytes,
                            registrations_.of_device(*receiver_));
  return receiver_->irecv(ring.slot(message.position, message.bytes), message.bytes,
                          registrations_.of(message.kind, *receiver_));
}

bool BulkReceiver::finds_place(BulkMessage& message) {
  if (message.registration) return true;
  if (buffers_ == nullptr || !receiver_->stops_at_once()) return false;
  const auto region = buffers_->find(reinterpret_cast<const std::byte*>(message.place), message.bytes);
  if (region) message.registration = buffers_registered_.of(*region, *receiver_);
  return message.registration != nullptr;
}

bool BulkReceiver::complete(const BulkMessage& message) {
  const auto bytes = receiver_->test(message.request);
  if (!bytes) return false;
  if (*bytes != message.bytes)
    fail(ErrorCode::remote_error, "a payload of {} bytes came where one of {} was announced", *bytes, message.bytes);
  return true;
}

}  // namespace sccl::runtime
