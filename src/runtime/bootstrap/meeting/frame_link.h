// A connection between a node of the meeting and a rank or another node: what has arrived, and what is still to be
// sent.
#pragma once

#include <poll.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <span>

#include "base/deadline.h"
#include "base/fd.h"
#include "runtime/bootstrap/meeting/wire.h"
#include "runtime/bootstrap/sockets/socket.h"

namespace sccl::runtime {

struct Frame {
  wire::Kind kind = wire::Kind::gather;
  Bytes payload;
};

class FrameLink {
 public:
  FrameLink() = default;
  // Non-blocking, of type SOCK_STREAM.
  explicit FrameLink(FileDescriptor socket) : socket_(std::move(socket)) {}

  // Receives what is there, until `most` bytes wait to be taken. True if something came.
  bool receive(std::size_t most);
  // Takes a value or a frame that has arrived whole. A frame that announces more than `most_bytes` breaks the link.
  template <typename T>
  bool take(T& value) {
    if (!peek(value)) return false;
    taken_ += sizeof value;
    tidy();
    return true;
  }
  // A value that has arrived whole, without taking it.
  template <typename T>
  bool peek(T& value) const {
    if (in_.size() - taken_ < sizeof value) return false;
    std::memcpy(static_cast<void*>(&value), in_.data() + taken_, sizeof value);
    return true;
  }
  std::optional<Frame> take_frame(std::uint64_t most_bytes);
  // Forgets what has arrived.
  void discard();

  // Frames to many links are shared, so that a table costs its size once.
  void post(std::shared_ptr<const Bytes> bytes);
  void post(Bytes bytes) { post(std::make_shared<const Bytes>(std::move(bytes))); }
  // Sends what the other side takes now.
  void send();
  // The same, and waits until it has taken all.
  void send_all(Deadline limit);
  bool has_unsent() const { return !out_.empty(); }

  pollfd poll_entry() const { return {socket_.get(), static_cast<short>(has_unsent() ? POLLIN | POLLOUT : POLLIN), 0}; }
  // The other side has gone, or was dropped. What came before is still there to be taken.
  bool is_broken() const { return broken_; }
  void drop() { broken_ = true; }
  // The address at the other end.
  Address peer() const { return peer_of(socket_.get()); }
  // It broke since the other host answered nothing any more.
  bool is_lost() const { return lost_; }

 private:
  void tidy();
  void note_broken(int error);

  FileDescriptor socket_;
  Bytes in_;
  std::size_t taken_ = 0;  // of in_
  std::deque<std::shared_ptr<const Bytes>> out_;
  std::size_t sent_ = 0;  // of the first of out_
  bool broken_ = false;
  bool lost_ = false;
};

}  // namespace sccl::runtime
