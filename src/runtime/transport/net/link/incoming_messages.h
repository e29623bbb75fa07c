// The receiver's side of a link: stores what came in this rank's rings, where its interpreter finds it, and tells the
// peer what that has consumed.
//
// What comes is believed only as far as it fits the state of this end: next position, free slot, length. All else
// throws remote_error, which ends the link.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/host/messages/landing.h"
#include "runtime/transport/net/link/bulk.h"
#include "runtime/transport/net/link/rings.h"
#include "runtime/transport/net/wire/frames.h"
#include "runtime/transport/transport.h"

namespace sccl::runtime {

class IncomingMessages {
 public:
  struct Setup {
    net::Net& net;
    int device;
    std::uint64_t nonce;
    Rank peer;  // the only one that may send
    const LinkShape& shape;
    const RegisteredBuffers* buffers = nullptr;  // into which long payloads may come; null: into slots alone
  };
  explicit IncomingMessages(const Setup& setup);
  IncomingMessages(const IncomingMessages&) = delete;
  IncomingMessages& operator=(const IncomingMessages&) = delete;

  // Fills in an end but for its bell.
  void attach(const EndRequest& request, kernels::HostConnection& end);

  void take_slot(const RecordHead& head, std::span<const std::byte> payload);
  void take_announcement(const RecordHead& head);
  void take_lines(const RecordHead& head, std::span<const std::byte> payload);
  // Drives the bulk connection. True if a long payload has arrived.
  bool receive_bulk();
  // True if the bulk connection may write into buffers of the program.
  bool writes_buffers() const { return bulk_ && bulk_->writes_buffers(); }
  void drop_stale_registrations() {
    if (bulk_) bulk_->drop_stale_registrations();
  }
  // True if all announced payloads have arrived.
  bool settled() const { return !bulk_ || bulk_->settled(); }
  // Whole messages and lines that have come, as OutgoingMessages::published() counts them.
  device::u64 received() const;
  // At once: payloads that are under way are lost.
  void close() { bulk_.reset(); }
  std::span<std::byte> memory() const { return rings_.memory(); }
  const std::byte* device_slots(int kind) const { return rings_.device_slots_of(kind); }

  // The address of this end's bulk connection; null if there is none, or if the peer has it already.
  const net::Handle* untold_address() const { return owes_address_ ? &bulk_->address() : nullptr; }
  void address_was_told() { owes_address_ = false; }

  // when_due: half of a ring of slots is free, or a quarter of one of lines.
  // when_wanted: also if the peer may soon wait for the report: half of a ring has come since the last report, or a
  // message of no bytes, whose sender waits until it is consumed. A peer that waits for room has filled the whole ring,
  // and all of that comes here, so it gets its report.
  enum class Tails : std::uint8_t { when_due, when_wanted, all };
  bool tails_due(Tails tails) const;
  void append_tails(FrameWriter& frame);

 private:
  struct Ring {
    device::u64 slots = 0;          // announced or received
    std::size_t bytes_of_slot = 0;  // received of the next one
    device::u64 awaited_slots = 0;  // up to the last one whose sender waits until it is consumed
    device::u64 lines = 0;
    device::u32 lines_of_piece = 0;
    device::u64 first_word = 0;  // of a piece that is not complete yet
    device::u64 told_slots = 0;
    device::u64 told_lines = 0;
    kernels::Landing landing;
  };

  void check_slot(const RecordHead& head) const;
  // `place`: of the payload; null: the slot.
  void publish(const BulkMessage& message, const device::u8* place);
  bool changed_tails(int kind) const;
  Ring& come(int kind) { return come_[static_cast<std::size_t>(kind)]; }
  const Ring& come(int kind) const { return come_[static_cast<std::size_t>(kind)]; }

  Setup setup_;
  RemoteRings rings_;
  std::vector<Ring> come_;  // by kind
  std::unique_ptr<BulkReceiver> bulk_;
  bool owes_address_ = false;
};

}  // namespace sccl::runtime
