#include "runtime/bootstrap/socket.h"

#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/error.h"

namespace sccl::runtime {
namespace {

constexpr int kPollSliceMs = 50;
constexpr int kBacklog = 1024;

FileDescriptor make_socket(int family) {
  FileDescriptor made(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made.valid()) fail_errno(errno, "opening a socket", "raise the limit on open files (ulimit -n)");
  return made;
}

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

}  // namespace

FileDescriptor listen_on(Address& address) {
  FileDescriptor made = make_socket(address.family());
  const int on = 1;
  ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(made.get(), reinterpret_cast<sockaddr*>(&address.storage), address.length) != 0)
    fail_errno(errno, "binding to " + address.text(), "choose another interface (NCCL_SOCKET_IFNAME) or port");
  if (::listen(made.get(), kBacklog) != 0) fail_errno(errno, "listening on " + address.text(), "allow the system call");
  ::getsockname(made.get(), reinterpret_cast<sockaddr*>(&address.storage), &address.length);
  return made;
}

void wait_for_any(std::span<pollfd> entries, const Patience& patience) {
  std::vector<pollfd> all(entries.begin(), entries.end());
  all.push_back({patience.alarm, POLLIN, 0});  // poll passes over -1
  while (true) {
    if (patience.abort != nullptr && patience.abort->load(std::memory_order_acquire))  // pairs with Communicator::abort
      throw SocketFailure::aborted;
    if (patience.deadline.passed()) throw SocketFailure::timed_out;
    const int ready = ::poll(all.data(), all.size(), patience.deadline.remaining_ms(kPollSliceMs) + 1);
    if (ready < 0 && errno != EINTR) fail_errno(errno, "poll", "raise the limit on open files (ulimit -n)");
    if (ready == 0 && patience.watch != nullptr && *patience.watch) (*patience.watch)();
    if (ready <= 0) continue;
    std::copy(all.begin(), all.end() - 1, entries.begin());
    if (std::any_of(entries.begin(), entries.end(), [](const pollfd& entry) { return entry.revents != 0; })) return;
    throw SocketFailure::alarmed;
  }
}

void wait_for(int descriptor, short events, const Patience& patience) {
  pollfd entry{descriptor, events, 0};
  wait_for_any(std::span(&entry, 1), patience);
}

FileDescriptor connect_to(const Address& address, const Patience& patience) {
  FileDescriptor made = make_socket(address.family());
  const int on = 1;
  ::setsockopt(made.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(made.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) throw SocketFailure::closed;
    wait_for(made.get(), POLLOUT, patience);
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) throw SocketFailure::closed;
  }
  return made;
}

void send_all(int socket, std::span<const std::byte> bytes, const Patience& patience) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0)
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    else if (sent < 0 && would_block(errno))
      wait_for(socket, POLLOUT, patience);
    else if (!(sent < 0 && errno == EINTR))
      throw SocketFailure::closed;
  }
}

void receive_all(int socket, std::span<std::byte> bytes, const Patience& patience) {
  while (!bytes.empty()) {
    const ssize_t received = ::recv(socket, bytes.data(), bytes.size(), 0);
    if (received > 0)
      bytes = bytes.subspan(static_cast<std::size_t>(received));
    else if (received < 0 && would_block(errno))
      wait_for(socket, POLLIN, patience);
    else if (!(received < 0 && errno == EINTR))
      throw SocketFailure::closed;
  }
}

}  // namespace sccl::runtime
