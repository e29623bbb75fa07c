// Joins this rank and one rank of another host. The sender's interpreter publishes into the sender's rings, the
// receiver's interpreter consumes from the receiver's rings, and the links of the two ranks move
//
//   slots     published messages of `simple`. Short messages travel inside a frame. A long message is announced in a
//             frame, and the bulk connection carries its payload from slot to slot
//   lines     the part of the ring of `ll` messages that is published and not sent yet
//   tails     what the receiver has consumed. Tails travel in the next frame of the opposite direction; alone if the
//             receiver has nothing else to do, or if half of the ring has been consumed
//   puts      data of one-sided calls, with their signals (net/puts); behind the messages that wait at that time
//
// outgoing_messages.h is the sender's side of that, incoming_messages.h the receiver's. The link has the two
// connections for frames, and says hello and farewell.
//
// Not thread-safe. While one thread uses a link, no other thread may run the interpreter on its rings.
#pragma once

#include <array>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <span>

#include "runtime/transport/net/link/incoming_messages.h"
#include "runtime/transport/net/link/outgoing_messages.h"
#include "runtime/transport/net/puts/outgoing_puts.h"
#include "runtime/transport/net/puts/window_table.h"
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
    const LinkShape& shape;                      // must outlive the link
    WindowTable& windows;                        // of this rank, into which the peer puts
    const RegisteredBuffers* buffers = nullptr;  // of the program; null where messages lie in slots alone
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

  // At once: messages that are under way are lost.
  void close();

  // True if something was received.
  bool receive();
  using Tails = IncomingMessages::Tails;
  // True if something was sent, or a slot became free. Throws if the connection is lost, also when nothing is to be
  // sent: what the engine has taken may not have arrived, and the peer would wait for it.
  bool send(Tails tails);
  // The last send() left nothing to send, and nothing under way.
  bool rests() const { return rests_; }

  // True if the engine has sent everything that this end published.
  bool settled() { return !frames_out_ || (out_.settled() && !puts_.has_news() && frames_out_->settled()); }
  // True if the engine reads buffers of the program, or may.
  bool reads_buffers() { return frames_out_ && (frames_out_->joins() ? !settled() : out_.reads_buffers()); }
  // Messages of the rings, without puts.
  OutgoingMessages& outgoing() { return out_; }
  IncomingMessages& incoming() { return in_; }
  OutgoingPuts& puts() { return puts_; }
  // What the interpreter at this end writes, and what it reads.
  std::array<std::span<std::byte>, 2> memory() const { return {out_.memory(), in_.memory()}; }
  // Where an end's long messages lie, if in a device's memory; null: in its ring's slots.
  const std::byte* device_slots(int kind, schedule::Direction direction) const {
    return direction == schedule::Direction::outgoing ? out_.device_slots(kind) : in_.device_slots(kind);
  }
  // After say_farewell() nothing is published any more. parted(): the peer has received everything.
  void say_farewell() { owes_farewell_ = !said_farewell_; }
  bool parted() const { return parted_; }

 private:
  void take(const RecordHead& head, std::span<const std::byte> payload);
  bool fill(FrameWriter& frame);
  bool append_control(FrameWriter& frame);
  bool send_frames(Tails tails);
  bool owes_control() const;
  bool owes(Tails tails) const;
  void check_sender();

  // The connection to the peer is lost. What the peer sent before may still be read.
  struct Loss {
    std::exception_ptr reason;
    std::chrono::steady_clock::time_point last_frames;  // that came since
  };

  Setup setup_;
  OutgoingMessages out_;
  IncomingMessages in_;
  OutgoingPuts puts_;
  std::unique_ptr<FrameSender> frames_out_;
  std::unique_ptr<FrameReceiver> frames_in_;
  bool said_hello_ = false;
  bool owes_farewell_ = false, said_farewell_ = false, parted_ = false;
  bool owes_answer_ = false;
  bool rests_ = false;
  std::optional<Loss> loss_;
};

}  // namespace sccl::runtime
