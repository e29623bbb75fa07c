// Messages: what arrives, and how it meets the receives that were posted.
#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "messages/local_socket.h"
#include "messages/messages.h"

namespace sccl_torch {
namespace {

constexpr int kMostReads = 16;  // of one connection, before others have their turn
constexpr std::size_t kMostAtOnce = std::size_t{1} << 20;

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

void Messages::accept_all() {
  for (;;) {
    Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) return;
    const ucred who = credentials_of(socket.get());
    if (who.uid == ::geteuid() || who.uid == 0) accepted(-1, who.pid, std::move(socket));
  }
}

void Messages::read_from(int fd, Share share) {
  const auto found = in_.find(fd);
  if (found == in_.end()) return;
  Incoming& in = found->second;
  for (int reads = 0; (share == Share::all || reads < kMostReads) && read_some(in); ++reads) {
  }
  if (!in.ended) return;
  const int peer = in.peer;
  const int error = in.error;
  const auto torn = in.transfer;
  in_.erase(found);
  if (peer < 0) return;
  if (torn) finish(torn, end_text(peer, error) + " while it sent a message");
  fail_peer(peer, end_text(peer, error));
}

void Messages::read_all() {
  accept_all();
  std::vector<int> all;
  for (const auto& [fd, in] : in_) all.push_back(fd);
  for (const int fd : all) read_from(fd, Share::all);
}

// True when there may be more.
bool Messages::read_some(Incoming& in) {
  static thread_local std::vector<char> dropped(64 * 1024);
  const bool in_header = in.header_got < sizeof in.frame;
  char* to = in_header ? reinterpret_cast<char*>(&in.frame) + in.header_got : in.payload_to;
  std::size_t wanted = in_header ? sizeof in.frame - in.header_got : std::min(in.payload_left, kMostAtOnce);
  if (!in_header && in.unwanted) {
    to = dropped.data();
    wanted = std::min(wanted, dropped.size());
  }
  const ssize_t got = ::recv(in.socket.get(), to, wanted, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  if (got < 0 && errno == EINTR) return true;
  if (got <= 0) {
    in.error = got < 0 ? errno : 0;
    in.ended = true;
    return false;
  }
  if (in_header) {
    in.header_got += static_cast<std::size_t>(got);
    if (in.header_got < sizeof in.frame) return true;
    if (in.frame.magic != Frame().magic || !header_arrived(in)) {
      in.ended = true;
      return false;
    }
  } else {
    if (!in.unwanted) in.payload_to += got;
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
    if (frame.bytes > kMostEagerBytes) return false;
    in.payload_left = frame.bytes;
    // Straight into the buffer that waits for it.
    if (const auto receive = match(in.peer, frame.tag); receive && receive->bytes_ == frame.bytes) {
      receives_.remove(receive);
      receive->matched_ = true;
      receive->peer_ = in.peer;
      in.transfer = receive;
      in.payload_to = receive->data_;
    } else {
      in.owned.assign(frame.bytes, 0);
      in.payload_to = in.owned.data();
    }
    return true;
  }
  if (frame.kind == kStream) {
    for (const auto& receive : receives_)
      if (receive->matched_ && receive->number_ == frame.number && receive->peer_ == in.peer &&
          receive->bytes_ == frame.bytes)
        in.transfer = receive;
    in.payload_left = frame.bytes;
    in.unwanted = in.transfer == nullptr;  // it was given up
    if (in.unwanted) return true;
    receives_.remove(in.transfer);
    in.payload_to = in.transfer->data_;
    return true;
  }
  return frame.kind <= kGone;
}

void Messages::payload_arrived(Incoming& in) {
  in.header_got = 0;
  const Frame frame = in.frame;
  const bool unwanted = std::exchange(in.unwanted, false);
  if (frame.kind == kEager || frame.kind == kStream) {
    if (unwanted) return in.owned.clear();
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
  } else if (frame.kind == kGone) {
    offer_gone(frame, in.peer);
  }
}

// The first receive that waits for such a message.
std::shared_ptr<Transfer> Messages::match(int peer, std::uint64_t tag) const {
  for (const auto& receive : receives_)
    if (!receive->matched_ && (receive->peer_ == peer || receive->peer_ == kAnySource) && receive->tag_ == tag)
      return receive;
  return nullptr;
}

void Messages::deliver(Unexpected message) {
  if (const auto receive = match(message.peer, message.frame.tag)) {
    receives_.remove(receive);
    take(receive, message);
  } else {
    unexpected_.push_back(std::move(message));
  }
}

// The receive and the message belong together.
bool Messages::take(const std::shared_ptr<Transfer>& receive, Unexpected& message) {
  receive->peer_ = message.peer;
  receive->matched_ = true;
  if (message.frame.bytes != receive->bytes_) {
    const std::string text = who(message.peer) + " sent " + std::to_string(message.frame.bytes) + " bytes with tag " +
                             std::to_string(message.frame.tag) + ", but rank " + std::to_string(rank_) + " receives " +
                             std::to_string(receive->bytes_) + ": make the tensors of send and recv equal in size";
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
  to_fetch_.emplace_back(receive, message.process);
  return true;
}

// The copy runs without the lock: it may take long, and touches nothing but two buffers that are both kept for it.
void Messages::fetch_offers(Lock& lock) {
  while (!to_fetch_.empty()) {
    const auto [receive, process] = to_fetch_.front();
    to_fetch_.pop_front();
    int error = EPERM;
    if (process > 0) {
      receive->reading_ = true;
      lock.unlock();
      error = read_peer(process, receive->address_, receive->data_, receive->bytes_);
      lock.lock();
      receive->reading_ = false;
    }
    answer_offer(receive, error);
  }
}

void Messages::answer_offer(const std::shared_ptr<Transfer>& receive, int error) {
  const int peer = receive->peer_;
  const Outgoing& out = connect_to(peer);
  Frame answer;
  answer.kind = error == 0 ? kDone : kPull;
  answer.number = receive->number_;
  if (error == 0) {
    post_frame(peer, answer, nullptr, 0);
    finish(receive);
    return;
  }
  if (error == ESRCH || !out.broken.empty()) {
    finish(receive, out.broken.empty() ? end_text(peer, 0) : out.broken);
    return;
  }
  receives_.push_back(receive);  // matched: only the stream that answers finds it
  post_frame(peer, answer, nullptr, 0);
}

void Messages::send_completed(const Frame& frame, int peer) {
  const auto found = offers_.find(frame.number);
  if (found == offers_.end()) return;
  const auto sent = found->second;
  offers_.erase(found);
  finish(sent, frame.kind == kDone
                   ? ""
                   : "rank " + std::to_string(rank_) + " sent " + std::to_string(sent->bytes_) + " bytes with tag " +
                         std::to_string(sent->tag_) + ", but " + who(peer) + " receives " +
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
  Piece piece;
  piece.transfer = sent;
  out.queue.push_back(std::move(piece));
  ++queued_;
  watch_writes(peer, out, true);
}

// Whoever waits for the message that the sender gave up waits for the next one.
void Messages::offer_gone(const Frame& frame, int peer) {
  unexpected_.remove_if([&](const Unexpected& message) {
    return message.peer == peer && message.frame.kind == kOffer && message.frame.number == frame.number;
  });
  const auto is_meant = [&](const std::shared_ptr<Transfer>& receive) {
    return receive->matched_ && receive->peer_ == peer && receive->number_ == frame.number;
  };
  std::shared_ptr<Transfer> receive;
  for (const auto& one : receives_)
    if (is_meant(one)) receive = one;
  for (const auto& [one, process] : to_fetch_)
    if (is_meant(one)) receive = one;
  if (!receive) return;
  receives_.remove(receive);
  forget_fetch(receive);
  receive->matched_ = false;
  receive->peer_ = receive->wanted_;
  receive->number_ = 0;
  if (!take_early(receive)) receives_.push_front(receive);
}

// The receive gets a message that has come before it, if there is one.
bool Messages::take_early(const std::shared_ptr<Transfer>& receive) {
  const auto early = std::find_if(unexpected_.begin(), unexpected_.end(), [&](const Unexpected& message) {
    return (receive->peer_ == kAnySource || message.peer == receive->peer_) && message.frame.tag == receive->tag_;
  });
  if (early == unexpected_.end()) return false;
  Unexpected message = std::move(*early);
  unexpected_.erase(early);
  take(receive, message);
  return true;
}

void Messages::forget_fetch(const std::shared_ptr<Transfer>& receive) {
  to_fetch_.erase(
      std::remove_if(to_fetch_.begin(), to_fetch_.end(), [&](const auto& entry) { return entry.first == receive; }),
      to_fetch_.end());
}

}  // namespace sccl_torch
