// Messages: what arrives, and how it meets the receives that were posted.
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "messages.h"

namespace sccl_torch {
namespace {

constexpr std::uint32_t kMagic = 0x5cc1a11e;
enum FrameKind : std::uint32_t { kHello, kEager, kOffer, kDone, kPull, kRefuse, kStream, kLeave };
constexpr std::uint64_t kMostEager = 16 * 1024;

// Returns 0, or the error. One call moves at most 2 GiB.
int read_peer(int process, std::uint64_t from, char* to, std::size_t bytes) {
  constexpr std::size_t kStep = std::size_t{1} << 30;
  for (std::size_t at = 0; at < bytes;) {
    const std::size_t step = std::min(kStep, bytes - at);
    const iovec local{to + at, step};
    const iovec remote{reinterpret_cast<void*>(from + at), step};
    const ssize_t got = ::process_vm_readv(process, &local, 1, &remote, 1, 0);
    if (got <= 0) return got == 0 ? EFAULT : errno;
    at += static_cast<std::size_t>(got);
  }
  return 0;
}

}  // namespace

void Messages::read_from(int fd) {
  const auto found = in_.find(fd);
  if (found == in_.end()) return;
  while (read_some(found->second)) {
  }
  if (found->second.fd >= 0) return;
  const int peer = found->second.peer;
  const auto torn = found->second.transfer;
  ::close(fd);
  in_.erase(found);
  if (peer < 0) return;
  if (torn) {
    torn->busy_ = false;
    finish(torn, "rank " + std::to_string(peer) + " ended while it sent a message");
  }
  fail_peer(peer, "rank " + std::to_string(peer) + " has ended or left the group");
}

// True when there may be more. The descriptor of a connection that has ended or speaks nonsense is set to -1.
bool Messages::read_some(Incoming& in) {
  const bool in_header = in.header_got < sizeof in.frame;
  char* to = in_header ? reinterpret_cast<char*>(&in.frame) + in.header_got : in.payload_to;
  const std::size_t wanted = in_header ? sizeof in.frame - in.header_got : in.payload_left;
  const ssize_t got = ::recv(in.fd, to, wanted, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  if (got < 0 && errno == EINTR) return true;
  if (got <= 0) {
    in.fd = -1;
    return false;
  }
  if (in_header) {
    in.header_got += static_cast<std::size_t>(got);
    if (in.header_got < sizeof in.frame) return true;
    if (in.frame.magic != kMagic || !header_arrived(in)) {
      in.fd = -1;
      return false;
    }
  } else {
    in.payload_to += got;
    in.payload_left -= static_cast<std::size_t>(got);
  }
  if (in.header_got == sizeof in.frame && in.payload_left == 0) payload_arrived(in);
  return true;
}

// Prepares for the payload, if there is one. False: no rank of this version sends such a frame.
bool Messages::header_arrived(Incoming& in) {
  const Frame& frame = in.frame;
  if (frame.kind == kHello) {
    if (frame.number >= static_cast<std::uint64_t>(ranks_)) return false;
    in.peer = static_cast<int>(frame.number);
    return true;
  }
  if (in.peer < 0) return false;
  if (frame.kind == kEager) {
    if (frame.bytes > kMostEager) return false;
    in.owned.assign(frame.bytes, 0);
    in.payload_to = in.owned.data();
    in.payload_left = frame.bytes;
    // Straight into the buffer that waits for it.
    for (const auto& receive : receives_)
      if (!receive->busy_ && (receive->peer_ == in.peer || receive->peer_ == kAnySource) &&
          receive->tag_ == frame.tag) {
        if (receive->bytes_ != frame.bytes) break;
        in.transfer = receive;
        in.payload_to = receive->data_;
        receive->peer_ = in.peer;
        receive->busy_ = true;
        break;
      }
    if (in.transfer) receives_.remove(in.transfer);
    return true;
  }
  if (frame.kind == kStream) {
    for (const auto& receive : receives_)
      if (receive->busy_ && receive->number_ == frame.number && receive->peer_ == in.peer &&
          receive->bytes_ == frame.bytes)
        in.transfer = receive;
    if (!in.transfer) return false;
    receives_.remove(in.transfer);
    in.payload_to = in.transfer->data_;
    in.payload_left = frame.bytes;
    return true;
  }
  return frame.kind <= kLeave;
}

void Messages::payload_arrived(Incoming& in) {
  in.header_got = 0;
  const Frame frame = in.frame;
  if (frame.kind == kEager || frame.kind == kStream) {
    if (in.transfer) {
      const auto arrived = std::move(in.transfer);
      in.transfer.reset();
      finish(arrived);
    } else {
      deliver({in.peer, in.process, frame, std::move(in.owned)});
      in.owned.clear();
    }
  } else if (frame.kind == kOffer) {
    deliver({in.peer, in.process, frame, {}});
  } else if (frame.kind == kDone || frame.kind == kRefuse) {
    send_completed(frame, in.peer);
  } else if (frame.kind == kPull) {
    stream_out(frame, in.peer);
  } else if (frame.kind == kLeave) {
    left_[static_cast<std::size_t>(in.peer)] = true;
  }
}

void Messages::deliver(Unexpected message) {
  for (const auto& receive : receives_)
    if (!receive->busy_ && (receive->peer_ == message.peer || receive->peer_ == kAnySource) &&
        receive->tag_ == message.frame.tag) {
      const auto matched = receive;
      receives_.remove(matched);
      take(matched, message);
      return;
    }
  unexpected_.push_back(std::move(message));
}

// The receive and the message belong together.
bool Messages::take(const std::shared_ptr<Transfer>& receive, Unexpected& message) {
  receive->peer_ = message.peer;
  if (message.frame.bytes != receive->bytes_) {
    const std::string text = "rank " + std::to_string(message.peer) + " sent " + std::to_string(message.frame.bytes) +
                             " bytes with tag " + std::to_string(message.frame.tag) + ", but rank " +
                             std::to_string(rank_) + " receives " + std::to_string(receive->bytes_) +
                             ": make the tensors of send and recv equal in size";
    if (message.frame.kind == kOffer) {
      connect_to(message.peer);
      Frame refuse;
      refuse.kind = kRefuse;
      refuse.number = message.frame.number;
      refuse.bytes = receive->bytes_;
      post_frame(message.peer, refuse, nullptr, 0);
    }
    finish(receive, text);
    return false;
  }
  if (message.frame.kind == kEager) {
    if (receive->bytes_ > 0) std::memcpy(receive->data_, message.payload.data(), receive->bytes_);
    finish(receive);
    return true;
  }
  receive->number_ = message.frame.number;
  receive->address_ = message.frame.address;
  receive->busy_ = true;
  to_fetch_.emplace_back(receive, message.process);
  return true;
}

// The copy runs without the lock: it may take long, and touches nothing but two buffers that are both kept for it.
void Messages::fetch_offers(Lock& lock) {
  while (!to_fetch_.empty()) {
    const auto [receive, process] = to_fetch_.front();
    to_fetch_.pop_front();
    lock.unlock();
    const int error = process > 0 ? read_peer(process, receive->address_, receive->data_, receive->bytes_) : EPERM;
    lock.lock();
    answer_offer(receive, error == 0, error);
  }
}

void Messages::answer_offer(const std::shared_ptr<Transfer>& receive, bool read, int error) {
  const Outgoing& out = connect_to(receive->peer_);
  Frame answer;
  answer.kind = read ? kDone : kPull;
  answer.number = receive->number_;
  if (read) {
    post_frame(receive->peer_, answer, nullptr, 0);
    finish(receive);
    return;
  }
  if (error == ESRCH || !out.broken.empty()) {
    finish(receive, "rank " + std::to_string(receive->peer_) + " has ended or left the group");
    return;
  }
  receives_.push_back(receive);  // busy: only the stream that answers finds it
  post_frame(receive->peer_, answer, nullptr, 0);
}

void Messages::send_completed(const Frame& frame, int peer) {
  const auto found = offers_.find(frame.number);
  if (found == offers_.end()) return;
  const auto sent = found->second;
  offers_.erase(found);
  finish(sent, frame.kind == kDone
                   ? ""
                   : "rank " + std::to_string(rank_) + " sent " + std::to_string(sent->bytes_) + " bytes with tag " +
                         std::to_string(sent->tag_) + ", but rank " + std::to_string(peer) + " receives " +
                         std::to_string(frame.bytes) + ": make the tensors of send and recv equal in size");
}

void Messages::stream_out(const Frame& frame, int peer) {
  const auto found = offers_.find(frame.number);
  if (found == offers_.end()) return;
  const auto sent = found->second;
  offers_.erase(found);
  Frame header;
  header.kind = kStream;
  header.number = frame.number;
  header.bytes = sent->bytes_;
  post_frame(peer, header, nullptr, 0);
  Outgoing& out = out_[static_cast<std::size_t>(peer)];
  if (!out.broken.empty()) {
    finish(sent, out.broken);
    return;
  }
  sent->busy_ = true;
  Piece piece;
  piece.transfer = sent;
  out.queue.push_back(std::move(piece));
  ++queued_;
  watch_writes(peer, out, true);
}

}  // namespace sccl_torch
