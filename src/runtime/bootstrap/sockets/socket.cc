#include "runtime/bootstrap/sockets/socket.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <random>
#include <vector>

#include "base/error.h"
#include "base/settings/env.h"

namespace sccl::runtime {
namespace {

constexpr int kPollSliceMs = 50;
constexpr int kBacklog = 1024;
constexpr std::int64_t kDefaultHostTimeoutMs = 4500;
constexpr int kKeepIdleSeconds = 1;
constexpr int kKeepIntervalSeconds = 1;
constexpr int kKeepProbes = 3;
constexpr int kRtoMaxMs = 44;  // TCP_RTO_MAX_MS of Linux 6.15; older ones refuse it
constexpr int kMostRetransmissionMs = 1000;

void set(int socket, int level, int option, int value) { ::setsockopt(socket, level, option, &value, sizeof value); }

FileDescriptor make_socket(int family) {
  FileDescriptor made(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made.valid()) fail_errno(errno, "opening a socket", "raise the limit on open files (ulimit -n)");
  // A closed connection keeps its port for a minute (TIME_WAIT). A listener gets this port only if both sockets have
  // SO_REUSEADDR.
  const int on = 1;
  ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return made;
}

in_port_t& port_of(Address& address) {
  return address.family() == AF_INET ? reinterpret_cast<sockaddr_in&>(address.storage).sin_port
                                     : reinterpret_cast<sockaddr_in6&>(address.storage).sin6_port;
}

// Invalid, with the reason in errno, when the address is not available.
FileDescriptor try_to_listen(const Address& address) {
  FileDescriptor made = make_socket(address.family());
  if (::bind(made.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) != 0 ||
      ::listen(made.get(), kBacklog) != 0)
    return FileDescriptor();
  return made;
}

// For port 0 the system gives no port that a connection used within the last minute. A program that makes communicators
// quickly would run out of ports (4 ranks: 7000 a minute). The system does give such a port if asked for its number.
FileDescriptor listen_on_lingering_port(Address& address) {
  unsigned first = 0, last = 0;
  if (std::ifstream range("/proc/sys/net/ipv4/ip_local_port_range");
      !(range >> first >> last) || first > last || last > 65535)
    first = 32768, last = 60999;  // Linux's default
  const unsigned count = last - first + 1;
  const unsigned begin = std::random_device()() % count;
  for (unsigned tried = 0; tried < count; ++tried) {
    port_of(address) = htons(static_cast<in_port_t>(first + (begin + tried) % count));
    FileDescriptor made = try_to_listen(address);
    if (made.valid() || errno != EADDRINUSE) return made;
  }
  port_of(address) = 0;
  errno = EADDRINUSE;
  return FileDescriptor();
}

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

}  // namespace

std::chrono::milliseconds host_timeout() {
  return std::chrono::milliseconds(env::number("SCCL_HOST_TIMEOUT_MS", kDefaultHostTimeoutMs, 100, 3600000));
}

FileDescriptor open_socket(int family) {
  FileDescriptor made = make_socket(family);
  prepare_connection(made.get(), host_timeout());
  return made;
}

void prepare_connection(int socket, std::chrono::milliseconds silence) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  // After an interruption the peer is heard of a second later, and not after as much time as the interruption took.
  set(socket, IPPROTO_TCP, kRtoMaxMs, kMostRetransmissionMs);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, kKeepIdleSeconds);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, kKeepIntervalSeconds);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, kKeepProbes);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(silence.count()));
}

bool is_lost_host(int error) { return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH; }

FileDescriptor listen_if_free(Address& address) {
  const bool any_port = port_of(address) == 0;
  FileDescriptor made = try_to_listen(address);
  if (!made.valid() && errno == EADDRINUSE && any_port) made = listen_on_lingering_port(address);
  if (!made.valid() && errno == EADDRINUSE) return made;
  if (!made.valid())
    fail_errno(errno, "listening on " + address.text(), "choose another interface (NCCL_SOCKET_IFNAME) or port");
  ::getsockname(made.get(), reinterpret_cast<sockaddr*>(&address.storage), &address.length);
  return made;
}

FileDescriptor listen_on(Address& address) {
  FileDescriptor made = listen_if_free(address);
  if (!made.valid())
    fail(ErrorCode::system_error, "listening on {}: the port is taken: choose another one", address.text());
  return made;
}

void wait_for_any(std::span<pollfd> entries, const WaitPolicy& policy) {
  // A rank that waits for its node alone needs no memory for it.
  std::array<pollfd, 8> few;
  std::vector<pollfd> many(entries.size() < few.size() ? 0 : entries.size() + 1);
  const auto all = many.empty() ? std::span(few).first(entries.size() + 1) : std::span(many);
  std::copy(entries.begin(), entries.end(), all.begin());
  all.back() = {policy.alarm, POLLIN, 0};  // poll ignores -1
  while (true) {
    if (policy.abort != nullptr && policy.abort->load(std::memory_order_acquire))  // pairs with Communicator::abort
      throw SocketFailure::aborted;
    if (policy.deadline.passed()) throw SocketFailure::timed_out;
    const int ready = ::poll(all.data(), all.size(), policy.deadline.remaining_ms(kPollSliceMs) + 1);
    if (ready < 0 && errno != EINTR) fail_errno(errno, "poll", "raise the limit on open files (ulimit -n)");
    if (ready == 0 && policy.watch != nullptr && *policy.watch) (*policy.watch)();
    if (ready <= 0) continue;
    std::copy(all.begin(), all.end() - 1, entries.begin());
    if (std::any_of(entries.begin(), entries.end(), [](const pollfd& entry) { return entry.revents != 0; })) return;
    throw SocketFailure::alarmed;
  }
}

void wait_for(int descriptor, short events, const WaitPolicy& policy) {
  pollfd entry{descriptor, events, 0};
  wait_for_any(std::span(&entry, 1), policy);
}

void send_all(int socket, std::span<const std::byte> bytes, const WaitPolicy& policy) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0)
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    else if (sent < 0 && would_block(errno))
      wait_for(socket, POLLOUT, policy);
    else if (!(sent < 0 && errno == EINTR))
      throw SocketFailure::closed;
  }
}

void receive_all(int socket, std::span<std::byte> bytes, const WaitPolicy& policy) {
  while (!bytes.empty()) {
    const ssize_t received = ::recv(socket, bytes.data(), bytes.size(), 0);
    if (received > 0)
      bytes = bytes.subspan(static_cast<std::size_t>(received));
    else if (received < 0 && would_block(errno))
      wait_for(socket, POLLIN, policy);
    else if (!(received < 0 && errno == EINTR))
      throw SocketFailure::closed;
  }
}

Address peer_of(int socket) {
  Address peer;
  peer.length = sizeof peer.storage;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer.storage), &peer.length) != 0) return {};
  return peer;
}

ssize_t receive_packet(int socket, msghdr& header) {
  const msghdr asked = header;
  const ssize_t count = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  if (count != 0) return count;
  // Linux looks for packets first and then for the end of the connection. A packet may have arrived in between, just
  // before the end, so look once more.
  header = asked;
  return ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
}

}  // namespace sccl::runtime
