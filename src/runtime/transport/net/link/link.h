// Everything between this rank and one rank of another host. The sender's interpreter publishes into rings of its own,
// the receiver's consumes from rings of its own, and the links of the two ranks move
//
//   slots     a published message of `simple`: short ones inside a frame, long ones announced in a frame and sent
//             through the bulk connection, from slot to slot
//   lines     of the ring of `ll` messages, whatever lies between what was sent and what is published
//   tails     what the receiver has consumed: with the next frame that goes the other way, or by themselves when the
//             receiver has nothing else to do, or when half of the ring is free
//
// outgoing_messages.h is the sender's side of that, incoming_messages.h the receiver's. The link has the two
// connections for frames, and says hello and farewell.
//
// Not safe for several threads: whoever uses a link also keeps the interpreter from using its rings.
#pragma once

#include <memory>
#include <span>

#include "runtime/transport/net/link/incoming_messages.h"
#include "runtime/transport/net/link/outgoing_messages.h"
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
  using Tails = IncomingMessages::Tails;
  // True: something of this rank's has left, or is free again.
  bool send(Tails tails);

  // Nothing that this end published is still on its way out of this process.
  bool settled() { return !frames_out_ || (out_.settled() && frames_out_->settled()); }
  // Whether anything was ever published here.
  bool has_sent() const { return out_.has_sent(); }
  // After this nothing is published any more. parted(): the peer has everything.
  void say_farewell() { owes_farewell_ = !said_farewell_; }
  bool parted() const { return parted_; }

 private:
  void take(const RecordHead& head, std::span<const std::byte> payload);
  bool fill(FrameWriter& frame);
  bool append_control(FrameWriter& frame);
  bool owes_control() const;

  Setup setup_;
  OutgoingMessages out_;
  IncomingMessages in_;
  std::unique_ptr<FrameSender> frames_out_;
  std::unique_ptr<FrameReceiver> frames_in_;
  bool said_hello_ = false;
  bool owes_farewell_ = false, said_farewell_ = false, parted_ = false;
  bool owes_answer_ = false;
};

}  // namespace sccl::runtime
