#include "messages/door.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "failure.h"

namespace sccl_torch {
namespace {

constexpr std::chrono::seconds kStrangersTime{5};
constexpr std::size_t kMostStrangers = 1024;
constexpr int kBacklog = 4096;

void set(int fd, int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof value); }

// The silence of a host is noticed by the side that only reads: its system asks the other's, which answers even for a
// process that is stopped. The side that writes gets no time limit (TCP_USER_TIMEOUT) for what is not taken: a rank
// that computes for long, while others send to it, is no lost host.
void watch_host(int fd, std::chrono::milliseconds timeout, bool reads) {
  const int seconds = static_cast<int>(timeout.count() / 1000);
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, std::max(1, seconds - 1));
  if (reads) set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(timeout.count()));
}

int listen_on(SocketAddress& address) {
  const int fd = ::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  if (::bind(fd, address.get(), address.length) != 0 || ::listen(fd, kBacklog) != 0) {
    const int error = errno;
    ::close(fd);
    errno = error;
    return -1;
  }
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.length);
  return fd;
}

}  // namespace

Door::Door(const Secret& secret, int rank, int ranks, std::vector<SocketAddress> addresses,
           std::chrono::milliseconds host_timeout, int wake)
    : secret_(secret),
      rank_(rank),
      ranks_(ranks),
      host_timeout_(host_timeout),
      wake_(wake),
      bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      accepted_(static_cast<std::size_t>(ranks)) {
  std::string reasons;
  for (SocketAddress& address : addresses) {
    Descriptor listener(listen_on(address));
    if (!listener.valid()) {
      reasons += " (" + address.text() + ": " + std::generic_category().message(errno) + ")";
      continue;
    }
    listeners_.push_back(std::move(listener));
    addresses_.push_back(address);
  }
  if (addresses_.empty() || !bell_.valid())
    throw Failure(FailureKind::system, "no address of this host can be listened at" + reasons +
                                           ": name an interface that leads to the other hosts (NCCL_SOCKET_IFNAME)");
  thread_ = std::thread([this] { run(); });
}

Door::~Door() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
    ring();
  }
  thread_.join();
}

void Door::ring() const {
  const std::uint64_t one = 1;
  (void)!::write(bell_.get(), &one, sizeof one);
}

void Door::dial(int peer, std::vector<SocketAddress> addresses) {
  const std::lock_guard<std::mutex> lock(mutex_);
  orders_.push_back({peer, std::move(addresses), ""});
  ring();
}

void Door::tell_end(int peer, std::string reason) {
  const std::lock_guard<std::mutex> lock(mutex_);
  orders_.push_back({peer, {}, std::move(reason)});
  ring();
}

std::vector<Door::Arrival> Door::arrivals() {
  std::vector<Arrival> taken;
  const std::lock_guard<std::mutex> lock(mutex_);
  taken.swap(arrivals_);
  return taken;
}

void Door::arrive(Arrival arrival) {
  const std::lock_guard<std::mutex> lock(mutex_);
  arrivals_.push_back(std::move(arrival));
  const std::uint64_t one = 1;
  (void)!::write(wake_, &one, sizeof one);
}

void Door::run() {
  ::pthread_setname_np(::pthread_self(), "sccl-door");
  for (;;) {
    take_orders();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (ending_) return;
    }
    poll_once();
  }
}

void Door::take_orders() {
  std::deque<Order> orders;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    orders.swap(orders_);
  }
  for (Order& order : orders) {
    if (!order.end.empty()) {
      Arrival end;
      end.peer = order.peer;
      end.failure = std::move(order.end);
      ends_.push_back(std::move(end));
    } else {
      start(order);
    }
  }
  // What has come before the end was told is accepted before it is released.
  if (!ends_.empty())
    for (const Descriptor& listener : listeners_) accept_from(listener.get());
  release_ends();
}

void Door::poll_once() {
  std::vector<pollfd> entries{{bell_.get(), POLLIN, 0}};
  auto nearest = Clock::time_point::max();
  for (const Descriptor& listener : listeners_) entries.push_back({listener.get(), POLLIN, 0});
  for (const Dialling& one : dialling_) {
    entries.push_back({one.socket.get(), static_cast<short>(one.connected ? POLLIN : POLLOUT), 0});
    if (!one.connected) nearest = std::min(nearest, one.deadline);
  }
  for (const Accepting& one : accepting_) {
    entries.push_back({one.socket.get(), POLLIN, 0});
    nearest = std::min(nearest, one.deadline);
  }
  int timeout_ms = -1;
  if (nearest != Clock::time_point::max())
    timeout_ms = std::max(
        0, static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(nearest - Clock::now()).count()) + 1);
  ::poll(entries.data(), entries.size(), timeout_ms);
  std::uint64_t value = 0;
  (void)!::read(bell_.get(), &value, sizeof value);
  for (const Descriptor& listener : listeners_) accept_from(listener.get());
  for (auto one = accepting_.begin(); one != accepting_.end();)
    one = advance(*one) ? std::next(one) : accepting_.erase(one);
  // A peer's other attempts end with the first that is good.
  for (auto one = dialling_.begin(); one != dialling_.end();) {
    const int peer = one->peer;
    if (advance(*one)) {
      ++one;
      continue;
    }
    const bool good = one->introduction.state() == Introduction::State::agreed;
    one = dialling_.erase(one);
    if (!good) continue;
    dialling_.remove_if([&](const Dialling& other) { return other.peer == peer; });
    attempts_.remove_if([&](const Attempt& attempt) { return attempt.peer == peer; });
    one = dialling_.begin();
  }
  release_ends();
}

void Door::start(const Order& order) {
  attempts_.push_back({order.peer, static_cast<int>(order.addresses.size()), false, ""});
  for (const SocketAddress& address : order.addresses) {
    Dialling one;
    one.peer = order.peer;
    one.address = address.text();
    one.socket = Descriptor(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    one.deadline = Clock::now() + host_timeout_;
    one.introduction = Introduction::of_dialler(secret_, rank_, order.peer);
    if (!one.socket.valid() ||
        (::connect(one.socket.get(), address.get(), address.length) != 0 && errno != EINPROGRESS && errno != EINTR)) {
      fail(one, errno);
      continue;
    }
    dialling_.push_back(std::move(one));
  }
  if (order.addresses.empty()) conclude(order.peer);
}

void Door::accept_from(int listener) {
  for (;;) {
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    if (accepting_.size() >= kMostStrangers) accepting_.pop_front();
    Accepting one;
    one.socket = Descriptor(fd);
    one.deadline = Clock::now() + kStrangersTime;
    one.introduction = Introduction::of_listener(secret_, rank_, ranks_);
    watch_host(fd, host_timeout_, true);
    accepting_.push_back(std::move(one));
  }
}

// False: it is over, well or not.
bool Door::advance(Accepting& one) {
  const Introduction::State state = one.introduction.advance(one.socket.get());
  if (state == Introduction::State::going) return Clock::now() < one.deadline;
  if (state == Introduction::State::failed) return false;
  const auto peer = static_cast<std::size_t>(one.introduction.peer());
  if (accepted_[peer]) return false;
  accepted_[peer] = true;
  Arrival arrival;
  arrival.peer = one.introduction.peer();
  arrival.socket = std::move(one.socket);
  arrive(std::move(arrival));
  return false;
}

bool Door::advance(Dialling& one) {
  if (!one.connected) {
    pollfd entry{one.socket.get(), POLLOUT, 0};
    int error = 0;
    if (::poll(&entry, 1, 0) <= 0) {
      if (Clock::now() < one.deadline) return true;
      error = ETIMEDOUT;
    } else {
      socklen_t length = sizeof error;
      ::getsockopt(one.socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    }
    if (error != 0) {
      fail(one, error);
      return false;
    }
    one.connected = true;
    watch_host(one.socket.get(), host_timeout_, false);
    one.introduction.begin(one.socket.get());
  }
  const Introduction::State state = one.introduction.state() == Introduction::State::failed
                                        ? Introduction::State::failed
                                        : one.introduction.advance(one.socket.get());
  if (state == Introduction::State::going) return true;
  if (state == Introduction::State::failed) {
    fail(one, one.introduction.error());
    return false;
  }
  Arrival arrival;
  arrival.peer = one.peer;
  arrival.dialled = true;
  arrival.socket = std::move(one.socket);
  arrive(std::move(arrival));
  return false;
}

void Door::fail(Dialling& one, int error) {
  for (Attempt& attempt : attempts_) {
    if (attempt.peer != one.peer) continue;
    // A rank that ends while it is greeted closes the connection, one that has ended refuses it.
    attempt.refused = attempt.refused || error == ECONNREFUSED || error == ECONNRESET || error == 0;
    attempt.failures += (attempt.failures.empty() ? "" : ", ") + one.address + ": " +
                        (error == 0 ? "closed" : std::generic_category().message(error));
    --attempt.open;
  }
  conclude(one.peer);
}

void Door::conclude(int peer) {
  for (auto attempt = attempts_.begin(); attempt != attempts_.end(); ++attempt) {
    if (attempt->peer != peer || attempt->open > 0) continue;
    Arrival end;
    end.peer = peer;
    end.failure = attempt->failures;
    end.unreachable = !attempt->refused;
    ends_.push_back(std::move(end));
    attempts_.erase(attempt);
    return;
  }
}

// An end waits for introductions that may be the same peer's.
void Door::release_ends() {
  for (auto end = ends_.begin(); end != ends_.end();) {
    const bool held = std::any_of(accepting_.begin(), accepting_.end(), [&](const Accepting& one) {
      return one.introduction.peer() < 0 || one.introduction.peer() == end->peer;
    });
    if (held) {
      ++end;
      continue;
    }
    arrive(std::move(*end));
    end = ends_.erase(end);
  }
}

}  // namespace sccl_torch
