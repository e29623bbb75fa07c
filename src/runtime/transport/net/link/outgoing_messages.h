// The sender's side of a link: copies messages that this rank's interpreter published from the rings into frames, or
// hands them to the bulk connection, and frees the slots that the peer has consumed.
//
// A slot is free when the peer has consumed its message and the engine no longer reads the slot.
#pragma once

#include <memory>
#include <vector>

#include "runtime/transport/net/link/bulk.h"
#include "runtime/transport/net/link/rings.h"
#include "runtime/transport/net/wire/frames.h"
#include "runtime/transport/transport.h"

namespace sccl::runtime {

class OutgoingMessages {
 public:
  struct Setup {
    const LinkShape& shape;
    Rank rank;
    std::uint64_t nonce;
    std::size_t most_framed_bytes;               // longer payloads go through the bulk connection
    const RegisteredBuffers* buffers = nullptr;  // from which that sends; null: from slots alone
  };
  explicit OutgoingMessages(const Setup& setup);
  OutgoingMessages(const OutgoingMessages&) = delete;
  OutgoingMessages& operator=(const OutgoingMessages&) = delete;

  // Fills in an end but for its bell. `end` stays where it is.
  void attach(const EndRequest& request, kernels::HostConnection& end);

  // Appends all messages that are published and not sent yet. False if some had no room.
  enum class LongPayloads : std::uint8_t { copied, stay_in_slots };
  bool append(FrameWriter& frame, LongPayloads payloads);
  // Drives the bulk connection. True if a payload was sent.
  bool step();
  // Takes the peer's report of what it has consumed. Throws remote_error if the report is impossible.
  void take_tails(const RecordHead& head);
  // The peer has sent the address of its bulk connection. False if this rank has announced no long payload.
  bool take_bulk_address(net::Handle address);
  // Connects to that address, once.
  void connect_bulk(net::Net& net, int device);
  // At once: payloads that are under way are lost.
  void close() { bulk_.reset(); }
  std::span<std::byte> memory() const { return rings_.memory(); }
  const std::byte* device_slots(int kind) const { return rings_.device_slots_of(kind); }

  // True if a published message is in no frame yet.
  bool has_news() const {
    for (const Ring& ring : sent_)
      if (ring.has_news()) return true;
    return false;
  }
  // True if all published messages are in frames, and the engine has sent all long payloads.
  bool settled() const { return !has_news() && (!bulk_ || bulk_->settled()); }
  // True if the bulk connection reads buffers of the program, or may.
  bool reads_buffers() const { return has_news() || (bulk_ && bulk_->reads_buffers()); }
  void drop_stale_registrations() {
    if (bulk_) bulk_->drop_stale_registrations();
  }
  // True if nothing happens on the bulk connection, nor waits for it.
  bool rests() const { return bulk_address_.empty() && (!bulk_ || bulk_->settled()); }
  // Messages and lines that were ever published. All confirmed: the peer has told that it has consumed them.
  device::u64 published() const;
  bool all_confirmed() const;
  // True if a message was ever published.
  bool has_sent() const;

 private:
  struct Ring {
    const kernels::HostConnection* end = nullptr;
    device::u64 slots = 0;          // sent
    std::size_t bytes_of_slot = 0;  // sent of the next one
    device::u64 lines = 0;
    device::u64 end_of_piece = 0;    // that begins at `lines`
    device::u32 lines_of_piece = 0;  // sent of it
    device::u64 consumed = 0;        // by the peer

    bool has_news() const { return end->position != slots || end->ll_position != lines; }
  };

  bool append_slots(FrameWriter& frame, int kind, LongPayloads payloads);
  bool append_slot(FrameWriter& frame, RecordHead head, LongPayloads payloads);
  const std::byte* buffer_of(int kind, device::u64 position) const;
  const std::byte* payload_of(const RecordHead& head) const;
  bool append_lines(FrameWriter& frame, int kind);
  void free_slots(int kind);
  Ring& sent(int kind) { return sent_[static_cast<std::size_t>(kind)]; }

  Setup setup_;
  RemoteRings rings_;
  kernels::HostConnection unused_{};  // the end of ring kinds that no program uses
  std::vector<Ring> sent_;            // by kind
  std::unique_ptr<BulkSender> bulk_;
  net::Handle bulk_address_;  // to connect to
};

}  // namespace sccl::runtime
