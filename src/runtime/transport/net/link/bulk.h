// The two ends of a connection for long payloads: from slot to slot, without a copy on either side, or from a buffer of
// the program that is registered. A frame has announced each payload, and payloads arrive in the order of their
// announcements.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "net/net.h"
#include "runtime/transport/net/link/buffer_registrations.h"
#include "runtime/transport/net/link/rings.h"
#include "runtime/transport/net/wire/frames.h"

namespace sccl::runtime {

struct BulkMessage {
  int kind = 0;
  device::u64 position = 0;
  device::u32 signature = 0;
  std::size_t bytes = 0;
  device::u8* place = nullptr;  // of a payload that comes: in the result of the call; null: in its slot
  net::Request request{};
  std::shared_ptr<net::Registration> registration{};  // of the place
};

// Registers the slots with a connection: those of each ring kind when that kind is first used, those in memory of a
// device all at once.
class SlotRegistrations {
 public:
  explicit SlotRegistrations(RemoteRings& rings) : rings_(rings), made_(static_cast<std::size_t>(rings.kinds())) {}
  net::Registration& of(int kind, net::Connection& connection);
  net::Registration& of_device(net::Connection& connection);
  void drop();

 private:
  RemoteRings& rings_;
  std::vector<std::unique_ptr<net::Registration>> made_;
  std::unique_ptr<net::Registration> device_;
};

class BulkSender {
 public:
  // `buffers`: from which payloads may be sent as they lie there; null: from none.
  BulkSender(RemoteRings& rings, int own_rank, std::uint64_t nonce, const RegisteredBuffers* buffers);
  ~BulkSender();
  BulkSender(const BulkSender&) = delete;
  BulkSender& operator=(const BulkSender&) = delete;

  // `connector` leads to the receiver. Messages may be pushed before this call.
  void connect(std::unique_ptr<net::Connector> connector) { connector_ = std::move(connector); }
  // `buffer`: where the payload lies; null: in its slot. It is copied there if the engine cannot send from the buffer.
  void push(const BulkMessage& message, const std::byte* buffer);
  // True if a payload was sent.
  bool step();
  bool settled() const { return messages_.empty(); }
  // True if the engine will still read buffers of the program.
  bool reads_buffers() const;
  void drop_stale_registrations() { buffers_registered_.drop_stale(); }
  // The position of the first message of this kind whose slot the engine still reads; `otherwise` if there is none.
  device::u64 first_under_way(int kind, device::u64 otherwise) const;

 private:
  struct Payload {
    BulkMessage message;
    const std::byte* buffer = nullptr;  // null: in its slot
    RegisteredBuffers::Region region{};
    std::shared_ptr<net::Registration> registration{};  // of the buffer
  };
  bool connected();
  net::Request isend(Payload& payload);
  net::Request isend_from_slot(Payload& payload);
  void copy_to_slot(Payload& payload, const std::byte* from);

  RemoteRings& rings_;
  SlotRegistrations registrations_;
  const RegisteredBuffers* const buffers_;
  BufferRegistrations buffers_registered_;
  std::unique_ptr<net::Connector> connector_;
  std::array<std::byte, Guest::kBytes> hello_{};
  std::unique_ptr<net::Sender> sender_;
  std::unique_ptr<net::Registration> hello_registration_;
  net::Request hello_request_;
  bool greeted_ = false;
  std::deque<Payload> messages_;
  std::size_t posted_ = 0;  // of messages_
};

class BulkReceiver {
 public:
  // `buffers`: into which payloads may come as they are; null: into none.
  BulkReceiver(RemoteRings& rings, std::unique_ptr<net::Listener> listener, std::uint64_t nonce,
               const RegisteredBuffers* buffers)
      : rings_(rings),
        registrations_(rings),
        buffers_(buffers),
        buffers_registered_(buffers),
        listener_(std::move(listener)),
        nonce_(nonce) {}
  ~BulkReceiver();
  BulkReceiver(const BulkReceiver&) = delete;
  BulkReceiver& operator=(const BulkReceiver&) = delete;

  const net::Handle& address() const { return address_; }
  void expect(const BulkMessage& message) { messages_.push_back(message); }
  // True if the engine may write into buffers of the program.
  bool writes_buffers() const;
  void drop_stale_registrations() { buffers_registered_.drop_stale(); }
  bool settled() const { return messages_.empty(); }
  std::size_t awaited() const { return messages_.size(); }

  // Calls function(message) for each payload that has arrived. Only `peer` may connect.
  template <typename Function>
  bool receive(int peer, Function&& function) {
    if (messages_.empty() || !connected(peer)) return false;
    post();
    bool any = false;
    for (; posted_ > 0 && complete(messages_.front()); post(), any = true) {
      function(messages_.front());
      messages_.pop_front();
      --posted_;
    }
    return any;
  }

 private:
  bool connected(int peer);
  void post();
  net::Request irecv(BulkMessage& message);
  bool finds_place(BulkMessage& message);
  bool complete(const BulkMessage& message);

  RemoteRings& rings_;
  SlotRegistrations registrations_;
  const RegisteredBuffers* const buffers_;
  BufferRegistrations buffers_registered_;
  std::unique_ptr<net::Listener> listener_;
  net::Handle address_ = listener_->handle();
  std::uint64_t nonce_;
  std::unique_ptr<Guest> guest_;
  std::unique_ptr<net::Receiver> receiver_;
  std::deque<BulkMessage> messages_;
  std::size_t posted_ = 0;
};

}  // namespace sccl::runtime
