#include "messages/messages.h"

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
#include "messages/local_socket.h"

namespace sccl_torch {
namespace {

constexpr std::uint64_t kListenerKey = ~0ull;
constexpr std::uint64_t kWakeKey = ~0ull - 1;
constexpr std::uint64_t kIncomingBit = 1ull << 32;

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
  epoll_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  wake_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  listener_ = Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  socklen_t length = 0;
  const sockaddr_un address = local_address(name_, rank_, length);
  if (!epoll_.valid() || !wake_.valid() || !listener_.valid() ||
      ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      ::listen(listener_.get(), 4096) != 0)
    throw Failure(FailureKind::system, "no socket for point-to-point messages can be opened (" + system_text(errno) +
                                           "): raise the limit of descriptors (ulimit -n)");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kListenerKey;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener_.get(), &event);
  event.data.u64 = kWakeKey;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event);
}

Messages::~Messages() {
  {
    Lock lock(mutex_);
    Frame leave;
    leave.kind = kLeave;
    for (int peer = 0; peer < ranks_; ++peer) post_frame(peer, leave, nullptr, 0);
    drain(lock);
    ending_ = true;
    wake_thread();
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  stop("the group was destroyed");
  door_.reset();
}

const std::vector<SocketAddress>& Messages::open_door(const Secret& secret, std::vector<SocketAddress> addresses,
                                                      std::chrono::milliseconds host_timeout) {
  host_timeout_ = host_timeout;
  door_ = std::make_unique<Door>(secret, rank_, ranks_, std::move(addresses), host_timeout, wake_.get());
  return door_->addresses();
}

std::string Messages::who(int peer) const {
  const std::string text = "rank " + std::to_string(peer);
  return is_elsewhere(peer) ? text + " on host " + places_[static_cast<std::size_t>(peer)].host : text;
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
  frame.kind = bytes <= (is_elsewhere(peer) ? kMostEagerBytes : kEagerBytes) ? kEager : kOffer;
  frame.tag = tag;
  frame.bytes = bytes;
  if (frame.kind == kEager) {
    post_frame(peer, frame, data, bytes);
    finish(transfer, out.broken);
  } else {
    if (!is_elsewhere(peer)) frame.address = reinterpret_cast<std::uint64_t>(data);
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
  transfer->peer_ = transfer->wanted_ = peer;
  transfer->tag_ = tag;
  transfer->data_ = static_cast<char*>(data);
  transfer->bytes_ = bytes;
  Lock lock(mutex_);
  ++pending_;
  if (take_early(transfer)) {
    fetch_offers(lock);
    run_completions(lock);
    return transfer;
  }
  receives_.push_back(transfer);
  // A connection tells when the peer dies, even if it never connects to this rank.
  bool broken = false;
  for (int other = 0; other < ranks_ && stopped_.empty(); ++other)
    if (peer == other || (peer == kAnySource && other != rank_)) broken = !connect_to(other).broken.empty() || broken;
  if (broken) read_all();  // what a rank sent before it left
  if (const std::string reason = why_lost(peer); !reason.empty() && !transfer->done() && !transfer->matched_) {
    receives_.remove(transfer);
    finish(transfer, reason);
  }
  fetch_offers(lock);
  note_pending();
  run_completions(lock);
  return transfer;
}

void Messages::wait(const std::shared_ptr<Transfer>& transfer, Clock::time_point deadline, const char* what) {
  const auto began = Clock::now();
  Lock lock(mutex_);
  ++waiters_;
  while (!transfer->done()) {
    const auto now = Clock::now();
    if (now >= deadline && !transfer->reading_) {
      --waiters_;
      const int peer = transfer->peer_;
      cancel(transfer, "its time was over");
      run_completions(lock);
      const auto waited =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - began + std::chrono::microseconds(999))
              .count();
      throw Failure(
          FailureKind::timeout,
          "Timed out waiting " + std::to_string(waited < 0 ? 0 : waited) + "ms for " + what +
              (peer == kAnySource ? std::string(" from any rank")
                                  : (transfer->kind_ == Transfer::Kind::send ? " to " : " from ") + who(peer)) +
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
  for (auto& [receive, process] : to_fetch_) all.push_back(receive);
  for (auto& [fd, in] : in_)
    if (in.transfer) all.push_back(in.transfer);
  for (const Outgoing& out : out_)
    for (const Piece& piece : out.queue)
      if (piece.transfer) all.push_back(piece.transfer);
  for (const auto& transfer : all) cancel(transfer, reason);
  changed_.notify_all();
  run_completions(lock);
}

// The buffer is free afterwards; what the peer knows of the transfer comes to nothing.
void Messages::cancel(const std::shared_ptr<Transfer>& transfer, const std::string& reason) {
  receives_.remove(transfer);
  forget_fetch(transfer);
  for (auto& [fd, in] : in_)
    if (in.transfer == transfer) {
      in.transfer.reset();
      in.unwanted = true;
    }
  if (transfer->kind_ == Transfer::Kind::send) {
    // What is on its way in part must go on: the rest is copied.
    for (Piece& piece : out_[static_cast<std::size_t>(transfer->peer_)].queue)
      if (piece.transfer == transfer) {
        piece.owned.assign(transfer->data_, transfer->data_ + transfer->bytes_);
        piece.transfer.reset();
      }
    if (transfer->number_ != 0 && offers_.erase(transfer->number_) > 0) {
      Frame gone;
      gone.kind = kGone;
      gone.number = transfer->number_;
      post_frame(transfer->peer_, gone, nullptr, 0);
    }
  }
  finish(transfer, reason);
}

// -- completion --

// pending_ counts what is not finished; actions run without the lock.
void Messages::finish(const std::shared_ptr<Transfer>& transfer, const std::string& error) {
  if (transfer->done()) return;
  transfer->error_ = error;
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
  const int count = ::epoll_wait(epoll_.get(), events, 32, timeout_ms);
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
    (void)!::read(wake_.get(), &value, sizeof value);
    if (door_) take_arrivals();
  } else if ((key & kIncomingBit) != 0) {
    read_from(static_cast<int>(key & (kIncomingBit - 1)), Share::some);
  } else {
    const int peer = static_cast<int>(key);
    Outgoing& out = out_[static_cast<std::size_t>(peer)];
    if (!out.socket.valid()) return;
    if ((events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0) {
      int error = 0;
      socklen_t length = sizeof error;
      ::getsockopt(out.socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
      outgoing_ended(peer, end_text(peer, error));
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
  (void)!::write(wake_.get(), &one, sizeof one);
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
