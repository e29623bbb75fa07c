// The sender's side of a link: takes what this rank's interpreter published out of its rings, into frames and into the
// bulk connection, and frees what the peer has consumed.
//
// A slot is free when the peer has consumed it and the engine reads it no more.
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
    int kinds;
    const MemoryLayout& layout;
    Rank rank;
    std::uint64_t nonce;
    std::size_t most_framed_bytes;  // longer payloads go through the bulk connection
  };
  explicit OutgoingMessages(const Setup& setup);
  OutgoingMessages(const OutgoingMessages&) = delete;
  OutgoingMessages& operator=(const OutgoingMessages&) = delete;

  // Fills in an end but for its bell. `end` stays where it is.
  void attach(const EndRequest& request, kernels::HostConnection& end);

  // Appends what was published since. False: not all had room.
  bool append(FrameWriter& frame);
  // Moves long payloads on. True: something has left.
  bool step();
  // What the peer has consumed. Throws remote_error where that cannot be.
  void take_tails(const RecordHead& head);
  // The peer has told where it takes long payloads. False: none was announced.
  bool connect_bulk(net::Net& net, int device, const net::Handle& address);
  // By force: what is under way is dropped.
  void close() { bulk_.reset(); }

  // Something was published that is in no frame yet.
  bool has_news() const;
  // Nothing that was published is still on its way out of this process.
  bool settled() const { return !has_news() && (!bulk_ || bulk_->settled()); }
  // Whether anything was ever published here.
  bool has_sent() const;

 private:
  struct Ring {
    const kernels::HostConnection* end = nullptr;
    device::u64 slots = 0;  // sent
    device::u64 lines = 0;
    device::u64 end_of_piece = 0;    // that begins at `lines`
    device::u32 lines_of_piece = 0;  // sent of it
    device::u64 consumed = 0;        // by the peer
  };

  bool append_slots(FrameWriter& frame, int kind);
  bool append_lines(FrameWriter& frame, int kind);
  void free_slots(int kind);
  Ring& sent(int kind) { return sent_[static_cast<std::size_t>(kind)]; }

  Setup setup_;
  RemoteRings rings_;
  kernels::HostConnection unused_{};  // of kinds that nobody attached
  std::vector<Ring> sent_;            // by kind
  std::unique_ptr<BulkSender> bulk_;
};

}  // namespace sccl::runtime
