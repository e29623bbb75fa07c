// Messages: connections, and what is written to them.
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "messages/local_socket.h"
#include "messages/messages.h"

namespace sccl_torch {
namespace {

constexpr std::uint64_t kIncomingBit = 1ull << 32;
constexpr std::size_t kMostAtOnce = std::size_t{1} << 20;  // of a long message, so that others have their turn

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

void watch(int epoll, int operation, int fd, std::uint32_t events, std::uint64_t key) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = key;
  ::epoll_ctl(epoll, operation, fd, &event);
}

}  // namespace

bool Messages::is_elsewhere(int peer) const {
  return !places_.empty() && peer >= 0 && places_[static_cast<std::size_t>(peer)].elsewhere;
}

Messages::Outgoing& Messages::connect_to(int peer) {
  Outgoing& out = out_[static_cast<std::size_t>(peer)];
  if (out.socket.valid() || out.dialling || !out.broken.empty()) return out;
  if (is_elsewhere(peer)) {
    out.dialling = true;
    door_->dial(peer, places_[static_cast<std::size_t>(peer)].addresses);
  } else if (connect_here(peer, out)) {
    Frame hello;
    hello.kind = kHello;
    hello.number = static_cast<std::uint64_t>(rank_);
    post_frame(peer, hello, nullptr, 0);
  } else {
    out.socket.reset();
  }
  return out;
}

bool Messages::connect_here(int peer, Outgoing& out) {
  out.socket = Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  socklen_t length = 0;
  const sockaddr_un address = local_address(name_, peer, length);
  if (!out.socket.valid() || ::connect(out.socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    out.broken = errno == ECONNREFUSED ? end_text(peer, 0)
                                       : who(peer) + " cannot be reached (" + system_text(errno) +
                                             "): raise the limit of descriptors (ulimit -n)";
    return false;
  }
  // The name could have been taken by another user's process.
  const ucred owner = credentials_of(out.socket.get());
  if (owner.uid != ::geteuid() && owner.uid != 0) {
    out.broken = "the socket of " + who(peer) + " belongs to another user: run all ranks as one user";
    return false;
  }
  watch(epoll_.get(), EPOLL_CTL_ADD, out.socket.get(), EPOLLRDHUP, static_cast<std::uint64_t>(peer));
  return true;
}

// What the door has brought.
void Messages::take_arrivals() {
  for (Door::Arrival& arrival : door_->arrivals()) {
    const int peer = arrival.peer;
    Outgoing& out = out_[static_cast<std::size_t>(peer)];
    if (arrival.socket.valid()) {
      if (arrival.dialled)
        opened(peer, std::move(arrival.socket));
      else
        accepted(peer, 0, std::move(arrival.socket));
      continue;
    }
    if (out.dialling)
      close_outgoing(peer, arrival.unreachable
                               ? who(peer) + " cannot be reached from rank " + std::to_string(rank_) + " (" +
                                     arrival.failure +
                                     "): let the hosts reach one another by TCP, or name the interface that joins "
                                     "them (NCCL_SOCKET_IFNAME)"
                               : end_text(peer, 0) + " (" + arrival.failure + ")");
    // A peer that reaches this rank, but is not reached, would wait for answers: it is told by the end.
    if (arrival.unreachable)
      for (auto& [fd, in] : in_)
        if (in.peer == peer) ::shutdown(fd, SHUT_RDWR);
    if (arrival.unreachable || !is_heard(peer)) fail_peer(peer, out.broken.empty() ? arrival.failure : out.broken);
  }
}

void Messages::opened(int peer, Descriptor socket) {
  Outgoing& out = out_[static_cast<std::size_t>(peer)];
  if (!out.dialling) return;  // it was given up meanwhile
  out.dialling = false;
  out.socket = std::move(socket);
  watch(epoll_.get(), EPOLL_CTL_ADD, out.socket.get(), EPOLLRDHUP, static_cast<std::uint64_t>(peer));
  if (!out.queue.empty()) {
    watch_writes(peer, out, true);
    flush(peer, out);
  }
}

void Messages::accepted(int peer, int process, Descriptor socket) {
  const int fd = socket.get();
  Incoming& in = in_[fd];
  in.socket = std::move(socket);
  in.peer = peer;
  in.process = process;
  watch(epoll_.get(), EPOLL_CTL_ADD, fd, EPOLLIN, kIncomingBit | static_cast<std::uint32_t>(fd));
  if (is_elsewhere(peer) && !ending_) connect_to(peer);
}

void Messages::post_frame(int peer, const Frame& frame, const void* payload, std::size_t bytes) {
  Outgoing& out = out_[static_cast<std::size_t>(peer)];
  if (!out.broken.empty() || (!out.socket.valid() && !out.dialling)) return;
  std::size_t written = 0;
  if (out.queue.empty() && !out.dialling) {
    iovec parts[2] = {{const_cast<Frame*>(&frame), sizeof frame}, {const_cast<void*>(payload), bytes}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = bytes > 0 ? 2 : 1;
    const ssize_t result = ::sendmsg(out.socket.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (result < 0 && !would_block(errno)) {
      out.broken = end_text(peer, errno);  // what follows from it is done when the descriptor tells its end
      return;
    }
    written = result < 0 ? 0 : static_cast<std::size_t>(result);
    if (written == sizeof frame + bytes) return;
  }
  Piece rest;
  rest.owned.resize(sizeof frame + bytes);
  std::memcpy(rest.owned.data(), &frame, sizeof frame);
  if (bytes > 0) std::memcpy(rest.owned.data() + sizeof frame, payload, bytes);
  rest.written = written;
  out.queue.push_back(std::move(rest));
  ++queued_;
  watch_writes(peer, out, true);
}

void Messages::flush(int peer, Outgoing& out) {
  for (std::size_t total = 0; !out.queue.empty() && total < kMostAtOnce;) {
    Piece& piece = out.queue.front();
    const char* data = piece.transfer ? piece.transfer->data_ : piece.owned.data();
    const std::size_t bytes = piece.transfer ? piece.transfer->bytes_ : piece.owned.size();
    const std::size_t step = std::min(bytes - piece.written, kMostAtOnce);
    const ssize_t result = ::send(out.socket.get(), data + piece.written, step, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (result < 0) {
      if (!would_block(errno)) outgoing_ended(peer, end_text(peer, errno));
      return;
    }
    total += static_cast<std::size_t>(result);
    piece.written += static_cast<std::size_t>(result);
    if (piece.written < bytes) continue;
    const auto sent = piece.transfer;
    out.queue.pop_front();
    --queued_;
    if (sent) finish(sent);
  }
  if (out.queue.empty()) watch_writes(peer, out, false);
}

void Messages::watch_writes(int peer, Outgoing& out, bool wanted) {
  if (out.wants_write == wanted || !out.socket.valid()) return;
  out.wants_write = wanted;
  watch(epoll_.get(), EPOLL_CTL_MOD, out.socket.get(),
        EPOLLRDHUP | (wanted ? static_cast<std::uint32_t>(EPOLLOUT) : 0u), static_cast<std::uint64_t>(peer));
}

// -- ends --

std::string Messages::end_text(int peer, int error) const {
  const bool silent = error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH || error == ENETDOWN;
  if (silent && is_elsewhere(peer))
    return who(peer) + " was not heard of for " + std::to_string(host_timeout_.count()) +
           " ms (SCCL_HOST_TIMEOUT_MS): look whether its host and the way to it work";
  return who(peer) + " has ended or left the group";
}

bool Messages::is_heard(int peer) const {
  return std::any_of(in_.begin(), in_.end(), [&](const auto& entry) { return entry.second.peer == peer; });
}

// Why a receive from `peer` cannot be served any more; "" if it can. One from any source has somebody to wait for while
// a rank is there, unless one has died.
std::string Messages::why_lost(int peer) const {
  if (!stopped_.empty()) return stopped_;
  const auto is_lost = [&](int rank) {
    return !out_[static_cast<std::size_t>(rank)].broken.empty() && !is_heard(rank);
  };
  if (peer != kAnySource) return is_lost(peer) ? out_[static_cast<std::size_t>(peer)].broken : "";
  bool somebody = false;
  std::string gone;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (rank == rank_) continue;
    if (!is_lost(rank)) {
      somebody = true;
      continue;
    }
    gone = out_[static_cast<std::size_t>(rank)].broken;
    if (!left_[static_cast<std::size_t>(rank)]) return gone;
  }
  return somebody ? "" : gone;
}

// Not while a frame is being handled: it reads.
void Messages::outgoing_ended(int peer, const std::string& reason) {
  close_outgoing(peer, reason);
  read_all();
  if (is_elsewhere(peer))
    door_->tell_end(peer, reason);  // there may be connections that the door is just accepting from it
  else if (!is_heard(peer))
    fail_peer(peer, reason);
}

void Messages::close_outgoing(int peer, const std::string& reason) {
  Outgoing& out = out_[static_cast<std::size_t>(peer)];
  const std::string text = left_[static_cast<std::size_t>(peer)] ? who(peer) + " has left the group" : reason;
  if (out.broken.empty() || left_[static_cast<std::size_t>(peer)]) out.broken = text;
  out.socket.reset();
  out.dialling = false;
  out.wants_write = false;
  for (Piece& piece : out.queue)
    if (piece.transfer) finish(piece.transfer, out.broken);
  queued_ -= out.queue.size();
  out.queue.clear();
}

void Messages::fail_peer(int peer, const std::string& reason) {
  close_outgoing(peer, reason);
  std::vector<std::shared_ptr<Transfer>> lost;
  for (const auto& receive : receives_)
    if (receive->peer_ == peer || (receive->peer_ == kAnySource && !why_lost(kAnySource).empty()))
      lost.push_back(receive);
  for (auto& [number, offer] : offers_)
    if (offer->peer_ == peer) lost.push_back(offer);
  for (const auto& transfer : lost) {
    receives_.remove(transfer);
    offers_.erase(transfer->number_);
    finish(transfer, out_[static_cast<std::size_t>(peer)].broken);
  }
}

}  // namespace sccl_torch
