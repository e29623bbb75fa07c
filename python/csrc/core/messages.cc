#include "messages.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "failure.h"

namespace sccl_torch {
namespace {

constexpr std::uint32_t kMagic = 0x5cc1a11e;
constexpr std::uint64_t kListenerKey = ~0ull;
constexpr std::uint64_t kWakeKey = ~0ull - 1;
constexpr std::uint64_t kIncomingBit = 1ull << 32;
enum FrameKind : std::uint32_t { kHello, kEager, kOffer, kDone, kPull, kRefuse, kStream, kLeave };

sockaddr_un address_of(const std::string& name, int rank, socklen_t& length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string full = name + "-" + std::to_string(rank);
  const std::size_t used = std::min(full.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, full.data(), used);  // the first byte is 0: an abstract name
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + used);
  return address;
}

std::string system_text(int error) { return std::generic_category().message(error); }

ucred credentials_of(int fd) {
  ucred who{};
  socklen_t length = sizeof who;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0) who.uid = static_cast<uid_t>(-1);
  return who;
}

}  // namespace

void Transfer::when_done(std::function<void()> action) {
  {
    const std::lock_guard<std::mutex> lock(action_mutex_);
    if (!done()) {
      action_ = std::move(action);
      return;
    }
  }
  action();
}

Messages::Messages(const std::string& name, int rank, int ranks)
    : name_(name),
      rank_(rank),
      ranks_(ranks),
      out_(static_cast<std::size_t>(ranks)),
      left_(static_cast<std::size_t>(ranks)) {
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  socklen_t length = 0;
  const sockaddr_un address = address_of(name_, rank_, length);
  if (epoll_ < 0 || wake_ < 0 || listener_ < 0 ||
      ::bind(listener_, reinterpret_cast<const sockaddr*>(&address), length) != 0 || ::listen(listener_, 4096) != 0)
    throw Failure(FailureKind::system, "no socket for point-to-point messages can be opened (" + system_text(errno) +
                                           "): raise the limit of descriptors (ulimit -n)");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kListenerKey;
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, listener_, &event);
  event.data.u64 = kWakeKey;
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event);
}

Messages::~Messages() {
  {
    Lock lock(mutex_);
    for (int peer = 0; peer < ranks_; ++peer)
      if (out_[static_cast<std::size_t>(peer)].fd >= 0) {
        Frame leave;
        leave.kind = kLeave;
        post_frame(peer, leave, nullptr, 0);
      }
    drain(lock);
    ending_ = true;
    wake_thread();
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  stop("the group was destroyed");
  for (Outgoing& out : out_)
    if (out.fd >= 0) ::close(out.fd);
  for (auto& [fd, in] : in_) ::close(fd);
  for (const int fd : {epoll_, wake_, listener_})
    if (fd >= 0) ::close(fd);
}

// Messages that were taken over for sending reach peers that are slow to read, within reason.
void Messages::drain(Lock& lock) {
  const auto until = Clock::now() + std::chrono::seconds(2);
  const auto queued = [&] {
    return std::any_of(out_.begin(), out_.end(), [](const Outgoing& out) { return !out.queue.empty(); });
  };
  while (queued() && Clock::now() < until) {
    if (polling_)
      changed_.wait_for(lock, std::chrono::milliseconds(10));
    else
      poll_step(lock, 10);
  }
}

std::shared_ptr<Transfer> Messages::send(int peer, std::uint64_t tag, const void* data, std::size_t bytes) {
  auto transfer = std::make_shared<Transfer>();
  transfer->kind_ = Transfer::Kind::send;
  transfer->peer_ = peer;
  transfer->tag_ = tag;
  transfer->data_ = static_cast<char*>(const_cast<void*>(data));
  transfer->bytes_ = bytes;
  Lock lock(mutex_);
  ++pending_;
  Outgoing& out = connect_to(peer);
  if (!stopped_.empty() || !out.broken.empty()) {
    finish(transfer, stopped_.empty() ? out.broken : stopped_);
    run_completions(lock);
    return transfer;
  }
  Frame frame;
  frame.kind = bytes <= kEagerBytes ? kEager : kOffer;
  frame.tag = tag;
  frame.bytes = bytes;
  if (frame.kind == kEager) {
    post_frame(peer, frame, data, bytes);
    finish(transfer, out.broken);
  } else {
    frame.address = reinterpret_cast<std::uint64_t>(data);
    frame.number = transfer->number_ = next_number_++;
    offers_[frame.number] = transfer;
    post_frame(peer, frame, nullptr, 0);
  }
  note_pending();
  run_completions(lock);
  return transfer;
}

std::shared_ptr<Transfer> Messages::receive(int peer, std::uint64_t tag, void* data, std::size_t bytes) {
  auto transfer = std::make_shared<Transfer>();
  transfer->kind_ = Transfer::Kind::receive;
  transfer->peer_ = peer;
  transfer->tag_ = tag;
  transfer->data_ = static_cast<char*>(data);
  transfer->bytes_ = bytes;
  Lock lock(mutex_);
  ++pending_;
  const auto fits = [&](const Unexpected& message) {
    return (peer == kAnySource || message.peer == peer) && message.frame.tag == tag;
  };
  const auto early = std::find_if(unexpected_.begin(), unexpected_.end(), fits);
  if (early != unexpected_.end()) {
    Unexpected message = std::move(*early);
    unexpected_.erase(early);
    take(transfer, message);
    fetch_offers(lock);
    run_completions(lock);
    return transfer;
  }
  // A connection tells when the peer dies, even if it never connects to this rank.
  std::string broken = stopped_;
  bool somebody = false;
  for (int other = 0; other < ranks_ && stopped_.empty(); ++other)
    if (peer == other || (peer == kAnySource && other != rank_)) {
      broken = connect_to(other).broken;
      somebody = somebody || broken.empty() || left_[static_cast<std::size_t>(other)];
      if (peer == kAnySource && !broken.empty() && !left_[static_cast<std::size_t>(other)]) break;
      if (peer == kAnySource && somebody) broken.clear();
    }
  if (!broken.empty()) {
    finish(transfer, broken);
  } else {
    receives_.push_back(transfer);
    note_pending();
  }
  run_completions(lock);
  return transfer;
}

void Messages::wait(const std::shared_ptr<Transfer>& transfer, Clock::time_point deadline, const char* what) {
  const auto began = Clock::now();
  Lock lock(mutex_);
  ++waiters_;
  while (!transfer->done()) {
    const auto now = Clock::now();
    if (now >= deadline && !transfer->busy_) {
      --waiters_;
      const int peer = transfer->peer_;
      cancel(transfer, "its time was over");
      run_completions(lock);
      const auto waited =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - began + std::chrono::microseconds(999))
              .count();
      throw Failure(FailureKind::timeout,
                    "Timed out waiting " + std::to_string(waited < 0 ? 0 : waited) + "ms for " + what +
                        (peer == kAnySource ? std::string(" from any rank")
                                            : std::string(transfer->kind_ == Transfer::Kind::send ? " to" : " from") +
                                                  " rank " + std::to_string(peer)) +
                        " to complete: see what that rank is doing, or raise the timeout");
    }
    const long long left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - now).count() + 1;
    const int step_ms = static_cast<int>(std::max<long long>(1, std::min<long long>(left, 1000)));
    if (polling_) {
      changed_.wait_for(lock, std::chrono::milliseconds(step_ms));
    } else {
      poll_step(lock, step_ms);
      run_completions(lock);
    }
  }
  --waiters_;
  if (!idle()) changed_.notify_all();
  lock.unlock();
  if (transfer->failed()) throw Failure(FailureKind::peer, transfer->error());
}

void Messages::poll_once() {
  Lock lock(mutex_);
  if (polling_ || ending_) return;
  poll_step(lock, 0);
  run_completions(lock);
}

void Messages::stop(const std::string& reason) {
  Lock lock(mutex_);
  if (stopped_.empty()) stopped_ = reason;
  std::vector<std::shared_ptr<Transfer>> all(receives_.begin(), receives_.end());
  for (auto& [number, offer] : offers_) all.push_back(offer);
  for (const auto& transfer : all)
    if (!transfer->busy_) {
      cancel(transfer, reason);
    }
  changed_.notify_all();
  run_completions(lock);
}

void Messages::cancel(const std::shared_ptr<Transfer>& transfer, const std::string& reason) {
  receives_.remove(transfer);
  if (transfer->number_ != 0 && transfer->kind_ == Transfer::Kind::send) offers_.erase(transfer->number_);
  finish(transfer, reason);
}

// -- connections --

Messages::Outgoing& Messages::connect_to(int peer) {
  Outgoing& out = out_[static_cast<std::size_t>(peer)];
  if (out.fd >= 0 || !out.broken.empty()) return out;
  out.fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  socklen_t length = 0;
  const sockaddr_un address = address_of(name_, peer, length);
  if (out.fd < 0 || ::connect(out.fd, reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    out.broken = errno == ECONNREFUSED
                     ? "rank " + std::to_string(peer) +
                           " has ended or left the group, or is on another host, where send, recv and "
                           "monitored_barrier do not reach"
                     : "rank " + std::to_string(peer) + " cannot be reached (" + system_text(errno) +
                           "): raise the limit of descriptors (ulimit -n)";
    if (out.fd >= 0) ::close(out.fd);
    out.fd = -1;
    return out;
  }
  // The name could have been taken by another user's process.
  const ucred who = credentials_of(out.fd);
  if (who.uid != ::geteuid() && who.uid != 0) {
    out.broken = "the socket of rank " + std::to_string(peer) + " belongs to another user: run all ranks as one user";
    ::close(out.fd);
    out.fd = -1;
    return out;
  }
  epoll_event event{};
  event.events = EPOLLRDHUP;
  event.data.u64 = static_cast<std::uint64_t>(peer);
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, out.fd, &event);
  Frame hello;
  hello.kind = kHello;
  hello.number = static_cast<std::uint64_t>(rank_);
  post_frame(peer, hello, nullptr, 0);
  return out;
}

void Messages::post_frame(int peer, const Frame& frame, const void* payload, std::size_t bytes) {
  Outgoing& out = out_[static_cast<std::size_t>(peer)];
  if (!out.broken.empty() || out.fd < 0) return;
  Frame sent = frame;
  sent.magic = kMagic;
  std::size_t written = 0;
  if (out.queue.empty()) {
    iovec parts[2] = {{&sent, sizeof sent}, {const_cast<void*>(payload), bytes}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = bytes > 0 ? 2 : 1;
    const ssize_t result = ::sendmsg(out.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (result < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
      fail_peer(peer, "rank " + std::to_string(peer) + " has ended or left the group");
      return;
    }
    written = result < 0 ? 0 : static_cast<std::size_t>(result);
    if (written == sizeof sent + bytes) return;
  }
  Piece rest;
  rest.owned.resize(sizeof sent + bytes);
  std::memcpy(rest.owned.data(), &sent, sizeof sent);
  if (bytes > 0) std::memcpy(rest.owned.data() + sizeof sent, payload, bytes);
  rest.written = written;
  out.queue.push_back(std::move(rest));
  ++queued_;
  watch_writes(peer, out, true);
}

void Messages::flush(int peer, Outgoing& out) {
  while (!out.queue.empty()) {
    Piece& piece = out.queue.front();
    const char* data = piece.transfer ? piece.transfer->data_ : piece.owned.data();
    const std::size_t bytes = piece.transfer ? piece.transfer->bytes_ : piece.owned.size();
    const ssize_t result = ::send(out.fd, data + piece.written, bytes - piece.written, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (result < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return;
      fail_peer(peer, "rank " + std::to_string(peer) + " has ended or left the group");
      return;
    }
    piece.written += static_cast<std::size_t>(result);
    if (piece.written < bytes) return;
    const auto sent = piece.transfer;
    out.queue.pop_front();
    --queued_;
    if (sent) {
      sent->busy_ = false;
      finish(sent);
    }
  }
  watch_writes(peer, out, false);
}

void Messages::watch_writes(int peer, Outgoing& out, bool wanted) {
  if (out.wants_write == wanted) return;
  out.wants_write = wanted;
  epoll_event event{};
  event.events = EPOLLRDHUP | (wanted ? static_cast<std::uint32_t>(EPOLLOUT) : 0u);
  event.data.u64 = static_cast<std::uint64_t>(peer);
  ::epoll_ctl(epoll_, EPOLL_CTL_MOD, out.fd, &event);
}

void Messages::accept_all() {
  for (;;) {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    const ucred who = credentials_of(fd);
    if (who.uid != ::geteuid() && who.uid != 0) {
      ::close(fd);
      continue;
    }
    Incoming& in = in_[fd];
    in.fd = fd;
    in.process = who.pid;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kIncomingBit | static_cast<std::uint32_t>(fd);
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
  }
}

void Messages::fail_peer(int peer, const std::string& reason) {
  Outgoing& out = out_[static_cast<std::size_t>(peer)];
  const std::string text =
      left_[static_cast<std::size_t>(peer)] ? "rank " + std::to_string(peer) + " has left the group" : reason;
  if (out.broken.empty()) out.broken = text;
  if (out.fd >= 0) ::close(out.fd);
  out.fd = -1;
  out.wants_write = false;
  for (Piece& piece : out.queue)
    if (piece.transfer) {
      piece.transfer->busy_ = false;
      finish(piece.transfer, text);
    }
  queued_ -= out.queue.size();
  out.queue.clear();
  // A receive from any source still has somebody to wait for while a rank is there, unless this one died.
  bool others = false;
  for (int rank = 0; rank < ranks_; ++rank)
    others = others || (rank != rank_ && out_[static_cast<std::size_t>(rank)].broken.empty());
  const bool any_is_lost = !left_[static_cast<std::size_t>(peer)] || !others;
  std::vector<std::shared_ptr<Transfer>> lost;
  for (const auto& receive : receives_)
    if (receive->peer_ == peer || (receive->peer_ == kAnySource && any_is_lost)) lost.push_back(receive);
  for (auto& [number, offer] : offers_)
    if (offer->peer_ == peer && !offer->busy_) lost.push_back(offer);
  for (const auto& transfer : lost) {
    receives_.remove(transfer);
    offers_.erase(transfer->number_);
    finish(transfer, text);
  }
}

// -- completion --

// pending_ counts what is not finished; actions run without the lock.
void Messages::finish(const std::shared_ptr<Transfer>& transfer, const std::string& error) {
  if (transfer->done()) return;
  transfer->error_ = error;
  transfer->busy_ = false;
  --pending_;
  transfer->done_.store(true, std::memory_order_release);  // pairs with Transfer::done
  completions_.push_back(transfer);
}

void Messages::run_completions(Lock& lock) {
  if (completions_.empty()) return;
  changed_.notify_all();
  while (!completions_.empty()) {
    Completions now;
    now.swap(completions_);
    lock.unlock();
    for (const auto& transfer : now) {
      std::function<void()> action;
      {
        const std::lock_guard<std::mutex> guard(transfer->action_mutex_);
        action.swap(transfer->action_);
      }
      if (action) action();
    }
    lock.lock();
  }
}

// -- progress --

void Messages::poll_step(Lock& lock, int timeout_ms) {
  polling_ = true;
  lock.unlock();
  epoll_event events[32];
  const int count = ::epoll_wait(epoll_, events, 32, timeout_ms);
  lock.lock();
  for (int i = 0; i < count; ++i) handle(events[i].data.u64, events[i].events);
  fetch_offers(lock);
  polling_ = false;
  changed_.notify_all();
}

void Messages::handle(std::uint64_t key, std::uint32_t events) {
  if (key == kListenerKey) {
    accept_all();
  } else if (key == kWakeKey) {
    std::uint64_t value = 0;
    (void)!::read(wake_, &value, sizeof value);
  } else if ((key & kIncomingBit) != 0) {
    read_from(static_cast<int>(key & (kIncomingBit - 1)));
  } else {
    const int peer = static_cast<int>(key);
    Outgoing& out = out_[static_cast<std::size_t>(peer)];
    if (out.fd < 0) return;
    if ((events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0) {
      // What the peer sent before its end is read first.
      accept_all();
      std::vector<int> from_peer;
      for (const auto& [fd, in] : in_)
        if (in.peer == peer || in.peer < 0) from_peer.push_back(fd);
      for (const int fd : from_peer) read_from(fd);
      if (out.fd >= 0) fail_peer(peer, "rank " + std::to_string(peer) + " has ended or left the group");
    } else if ((events & EPOLLOUT) != 0) {
      flush(peer, out);
    }
  }
}

void Messages::note_pending() {
  if (idle()) return;
  if (!thread_started_) {
    thread_started_ = true;
    thread_ = std::thread([this] { run(); });
  } else if (thread_asleep_) {
    changed_.notify_all();
  }
}

void Messages::wake_thread() {
  const std::uint64_t one = 1;
  (void)!::write(wake_, &one, sizeof one);
}

// While transfers come and go, the thread dozes in steps of a millisecond, so that a rank which posts and waits at once
// need not wake it; it polls when something has been pending for a whole step and nobody else polls.
void Messages::run() {
  ::pthread_setname_np(::pthread_self(), "sccl-messages");
  constexpr int kQuietSteps = 100;
  int quiet = 0;
  bool seen = false;
  Lock lock(mutex_);
  while (!ending_) {
    if (idle() && ++quiet > kQuietSteps) {
      thread_asleep_ = true;
      changed_.wait(lock, [&] { return ending_ || (!idle() && waiters_ == 0); });
      thread_asleep_ = false;
      quiet = 0;
    } else if (!idle() && waiters_ == 0 && !polling_ && seen) {
      quiet = 0;
      poll_step(lock, 100);
      run_completions(lock);
    } else {
      seen = !idle() && waiters_ == 0;
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      lock.lock();
    }
  }
}

}  // namespace sccl_torch
