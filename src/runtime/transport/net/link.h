// Everything between this rank and one rank of another host. The sender's interpreter publishes into rings of its own,
// the receiver's consumes from rings of its own, and the links of the two ranks move
//
//   slots     a published message of `simple`: short ones inside a frame, long ones announced in a frame and sent
//             through the bulk connection, from slot to slot
//   lines     of the ring of `ll` messages, whatever lies between what was sent and what is published
//   tails     what the receiver has consumed: with the next frame that goes the other way, or by themselves when the
//             receiver has nothing else to do, or when half of the ring is free
//
// A sender takes a slot for free when its receiver has consumed it and the engine reads it no more. What comes is
// believed only as far as it fits the state of this end: next position, free slot, length. All else ends the link.
//
// Not safe for several threads: whoever uses a link also keeps the interpreter from using its rings.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "runtime/transport/net/bulk.h"
#include "runtime/transport/net/rings.h"
#include "runtime/transport/net/wire/frames.h"
#include "runtime/transport/transport.h"

namespace sccl::runtime {

class Link {
 public:
  struct Setup {
    net::Net& net;
    int device;
    std::uint64_t nonce;
    Rank rank, peer;
    const MemoryLayout& layout;
    int kinds;
  };
  explicit Link(const Setup& setup);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Fills in an end but for its bell. `end` stays where it is.
  void attach(const EndRequest& request, kernels::HostConnection& end);

  // Connects to the peer, unless that was begun.
  void open(const net::Handle& address);
  bool is_open() const { return frames_out_ != nullptr; }
  // The peer has connected to this rank.
  void accept(std::unique_ptr<net::Receiver> receiver);
  bool has_accepted() const { return frames_in_ != nullptr; }

  // By force: what is under way is dropped.
  void close();

  // True: something came.
  bool receive();
  enum class Tails : std::uint8_t { when_due, all };
  // True: something of this rank's has left, or is free again.
  bool send(Tails tails);

  // Nothing that this end published is still on its way out of this process.
  bool settled();
  // Whether anything was ever published here.
  bool has_sent() const;
  // After this nothing is published any more. parted(): the peer has everything.
  void say_farewell() { owes_farewell_ = !said_farewell_; }
  bool parted() const { return parted_; }

 private:
  struct Outgoing {
    const kernels::HostConnection* end = nullptr;
    device::u64 slots = 0;  // sent
    device::u64 lines = 0;
    device::u64 end_of_piece = 0;    // that begins at `lines`
    device::u32 lines_of_piece = 0;  // sent of it
    device::u64 consumed = 0;        // by the peer
  };
  struct Incoming {
    device::u64 slots = 0;  // announced or come
    device::u64 lines = 0;
    device::u32 lines_of_piece = 0;
    device::u64 first_word = 0;  // of a piece that is not whole yet
    device::u64 told_slots = 0;
    device::u64 told_lines = 0;
  };

  void take(const RecordHead& head, std::span<const std::byte> payload);
  void take_slot(const RecordHead& head, std::span<const std::byte> payload);
  void take_announcement(const RecordHead& head);
  void take_lines(const RecordHead& head, std::span<const std::byte> payload);
  void take_tails(const RecordHead& head);
  device::u64 next_slot(const RecordHead& head, std::size_t bytes);
  void publish(int kind, device::u64 position, device::u32 signature, std::size_t bytes);
  void free_slots(int kind);

  bool fill(FrameWriter& frame);
  bool append_control(FrameWriter& frame);
  bool append_slots(FrameWriter& frame, int kind);
  bool append_lines(FrameWriter& frame, int kind);
  void append_tails(FrameWriter& frame, int kind);
  bool has_news() const;
  bool tails_due(int kind, Tails tails) const;
  bool changed_tails(int kind) const;

  Outgoing& out(int kind) { return out_[static_cast<std::size_t>(kind)]; }
  const Outgoing& out(int kind) const { return out_[static_cast<std::size_t>(kind)]; }
  Incoming& in(int kind) { return in_[static_cast<std::size_t>(kind)]; }
  const Incoming& in(int kind) const { return in_[static_cast<std::size_t>(kind)]; }

  Setup setup_;
  RemoteRings rings_out_, rings_in_;
  kernels::HostConnection unused_{};  // of kinds that nobody attached
  std::vector<Outgoing> out_;
  std::vector<Incoming> in_;
  const std::size_t most_framed_bytes_;  // longer payloads go through the bulk connection
  std::unique_ptr<FrameSender> frames_out_;
  std::unique_ptr<FrameReceiver> frames_in_;
  std::unique_ptr<BulkSender> bulk_out_;
  std::unique_ptr<BulkReceiver> bulk_in_;
  bool said_hello_ = false;
  bool owes_bulk_address_ = false;
  bool owes_farewell_ = false, said_farewell_ = false, parted_ = false;
  bool owes_answer_ = false;
};

}  // namespace sccl::runtime
