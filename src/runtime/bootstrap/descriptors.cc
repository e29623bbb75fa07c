// The first rank collects everyone's descriptors and hands each rank all of them. It waits for a rank's acknowledgement
// before it serves the next, because descriptors in flight count against the limit on open files.
#include "runtime/bootstrap/descriptors.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "runtime/bootstrap/wire.h"

namespace sccl::runtime {
namespace {

// The kernel passes at most 253 in one message.
constexpr std::size_t kMostPassed = 240;

struct Message {
  std::uint64_t mac = 0;
  std::int32_t rank = 0;   // of the sender
  std::int32_t first = 0;  // position of the first rank whose descriptors follow
};

struct SocketName {
  sockaddr_un address{};
  socklen_t length = 0;
};

SocketName socket_name(const Secret& secret) {
  SocketName name;
  name.address.sun_family = AF_UNIX;
  const wire::Nonce what{0x6e616d65, 0};
  const std::string text = fmt::format("sccl-{:016x}", wire::prove(secret, what, wire::Role::descriptors));
  std::memcpy(name.address.sun_path + 1, text.data(), text.size());
  name.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return name;
}

std::uint64_t proof_of(const Secret& secret, Rank rank) {
  return wire::prove(secret, {static_cast<std::uint64_t>(rank), 1}, wire::Role::descriptors);
}

FileDescriptor unix_socket() {
  FileDescriptor made(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made.valid()) fail_errno(errno, "opening a Unix socket", "raise the limit on open files (ulimit -n)");
  return made;
}

void send_message(int socket, const Message& message, std::span<const int> descriptors, const WaitPolicy& policy) {
  iovec data{const_cast<Message*>(&message), sizeof message};
  std::vector<std::byte> control(CMSG_SPACE(descriptors.size_bytes()));
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* passed = CMSG_FIRSTHDR(&header);
    passed->cmsg_level = SOL_SOCKET;
    passed->cmsg_type = SCM_RIGHTS;
    passed->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(passed), descriptors.data(), descriptors.size_bytes());
  }
  while (::sendmsg(socket, &header, MSG_NOSIGNAL) < 0) {
    if (errno == EAGAIN || errno == ETOOMANYREFS)
      wait_for(socket, POLLOUT, policy);
    else if (errno == EPIPE || errno == ECONNRESET)
      throw SocketFailure::closed;
    else if (errno != EINTR)
      fail_errno(errno, "passing descriptors to another rank",
                 "look at the limits on open files and memory (ulimit -n, -v)");
  }
}

struct Received {
  Message message;
  std::vector<FileDescriptor> descriptors;
  bool truncated = false;
};

[[noreturn]] void fail_without_room() {
  fail(ErrorCode::system_error,
       "no room for the descriptors of other ranks: raise the limit on open files (ulimit -n)");
}

std::vector<FileDescriptor> passed_descriptors(msghdr& header) {
  std::vector<FileDescriptor> descriptors;
  for (cmsghdr* passed = CMSG_FIRSTHDR(&header); passed != nullptr; passed = CMSG_NXTHDR(&header, passed)) {
    if (passed->cmsg_level != SOL_SOCKET || passed->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (passed->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(passed) + i * sizeof(int), sizeof(int));
      descriptors.emplace_back(descriptor);
    }
  }
  return descriptors;
}

// Nothing while no message is there. Throws SocketFailure::closed for what is no message of ours.
std::optional<Received> try_receive(int socket) {
  Received received;
  iovec data{&received.message, sizeof received.message};
  std::vector<std::byte> control(CMSG_SPACE(kMostPassed * sizeof(int)));
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t count = receive_packet(socket, header);
  if (count < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) return std::nullopt;
  if (count < 0) throw SocketFailure::closed;
  received.descriptors = passed_descriptors(header);
  if (count != sizeof received.message) throw SocketFailure::closed;
  received.truncated = (header.msg_flags & MSG_CTRUNC) != 0;
  return received;
}

Received receive_message(int socket, const WaitPolicy& policy) {
  while (true) {
    if (auto received = try_receive(socket)) {
      if (received->truncated) fail_without_room();
      return std::move(*received);
    }
    wait_for(socket, POLLIN, policy);
  }
}

FileDescriptor duplicate(int descriptor) {
  FileDescriptor copy(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) fail_errno(errno, "duplicating a descriptor", "raise the limit on open files (ulimit -n)");
  return copy;
}

using Table = std::vector<std::vector<FileDescriptor>>;

class Server {
 public:
  explicit Server(const DescriptorExchange& exchange) : exchange_(exchange), listener_(unix_socket()) {
    const SocketName name = socket_name(exchange.secret);
    if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&name.address), name.length) != 0 ||
        ::listen(listener_.get(), static_cast<int>(exchange.ranks.size()) + 16) != 0)
      fail_errno(errno, "listening on an abstract Unix socket", "allow Unix sockets");
  }

  Table run() {
    table_.resize(exchange_.ranks.size());
    clients_.resize(exchange_.ranks.size());
    for (const int descriptor : exchange_.mine) table_[0].push_back(duplicate(descriptor));
    while (come_ < table_.size()) {
      wait_for_callers();
      hear_callers();
      accept_caller();
    }
    callers_.clear();
    for (std::size_t i = 1; i < clients_.size(); ++i) serve(clients_[i].get());
    return std::move(table_);
  }

 private:
  // Who connected and has not shown that it is a rank. The socket's name can be read by every process of the host, so
  // there may be strangers, and they may stay silent: they wait beside each other, and the oldest makes room.
  struct Caller {
    FileDescriptor socket;
    bool readable = false;
    bool refused = false;
  };
  static constexpr std::size_t kMostCallers = 128;

  void wait_for_callers() {
    std::vector<pollfd> entries{{listener_.get(), POLLIN, 0}};
    for (const Caller& caller : callers_) entries.push_back({caller.socket.get(), POLLIN, 0});
    wait_for_any(entries, exchange_.policy);
    for (std::size_t i = 0; i < callers_.size(); ++i) callers_[i].readable = entries[i + 1].revents != 0;
  }

  void hear_callers() {
    for (Caller& caller : callers_) {
      if (!caller.readable) continue;
      try {
        if (auto received = try_receive(caller.socket.get())) caller.refused = !admit(caller, std::move(*received));
      } catch (SocketFailure) {
        caller.refused = true;  // a stranger, or a rank that died: the root tells of those
      }
    }
    std::erase_if(callers_, [](const Caller& caller) { return caller.refused || !caller.socket.valid(); });
  }

  void accept_caller() {
    FileDescriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    const bool starved = !socket.valid() && (errno == EMFILE || errno == ENFILE);
    if (starved && callers_.empty()) fail_without_room();
    if (!callers_.empty() && (starved || callers_.size() == kMostCallers)) callers_.erase(callers_.begin());
    if (socket.valid()) callers_.push_back({std::move(socket)});
  }

  // Takes the caller's socket over when it is a rank that was awaited.
  bool admit(Caller& caller, Received received) {
    const auto position = std::find(exchange_.ranks.begin(), exchange_.ranks.end(), received.message.rank);
    if (position == exchange_.ranks.end() || received.message.mac != proof_of(exchange_.secret, received.message.rank))
      return false;
    if (received.truncated) fail_without_room();
    const auto index = static_cast<std::size_t>(position - exchange_.ranks.begin());
    if (received.descriptors.size() != exchange_.mine.size() || index == 0 || clients_[index].valid()) return false;
    table_[index] = std::move(received.descriptors);
    clients_[index] = std::move(caller.socket);
    ++come_;
    return true;
  }

  void serve(int client) {
    const std::size_t each = std::max<std::size_t>(1, exchange_.mine.size());
    const std::size_t batch = std::max<std::size_t>(1, kMostPassed / each);
    for (std::size_t first = 0; first < table_.size(); first += batch) {
      std::vector<int> passed;
      for (std::size_t i = first; i < std::min(first + batch, table_.size()); ++i)
        for (const FileDescriptor& descriptor : table_[i]) passed.push_back(descriptor.get());
      const Message message{proof_of(exchange_.secret, exchange_.rank), exchange_.rank,
                            static_cast<std::int32_t>(first)};
      send_message(client, message, passed, exchange_.policy);
      receive_message(client, exchange_.policy);
    }
  }

  const DescriptorExchange& exchange_;
  FileDescriptor listener_;
  Table table_;
  std::vector<FileDescriptor> clients_;
  std::size_t come_ = 1;
  std::vector<Caller> callers_;
};

// Throws when it comes, when the call is aborted or its deadline passes; else returns after `span`.
void wait_for_alarm(const DescriptorExchange& exchange, std::chrono::milliseconds span) {
  const WaitPolicy brief{Deadline::in(span), exchange.policy.abort, exchange.policy.alarm, exchange.policy.watch};
  try {
    wait_for_any({}, brief);
  } catch (SocketFailure failure) {
    if (failure != SocketFailure::timed_out || exchange.policy.deadline.passed()) throw;
  }
}

FileDescriptor connect_to_server(const DescriptorExchange& exchange) {
  const SocketName name = socket_name(exchange.secret);
  while (true) {
    FileDescriptor socket = unix_socket();
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name.address), name.length) == 0) return socket;
    const int error = errno;
    if (error == EAGAIN || error == EINTR) {
      wait_for_alarm(exchange, std::chrono::milliseconds(1));  // its queue is full: a moment later there is room
      continue;
    }
    // It died? Then the root says so in a moment.
    wait_for_alarm(exchange, std::chrono::milliseconds(500));
    fail_errno(error, fmt::format("reaching rank {} through a Unix socket", exchange.ranks.front()),
               "run the ranks in one network namespace, or give them different NCCL_HOSTID");
  }
}

Table run_client(const DescriptorExchange& exchange) {
  const FileDescriptor socket = connect_to_server(exchange);
  const Message hello{proof_of(exchange.secret, exchange.rank), exchange.rank, 0};
  send_message(socket.get(), hello, exchange.mine, exchange.policy);
  Table table(exchange.ranks.size());
  const std::size_t each = exchange.mine.size();
  for (std::size_t filled = 0; filled < table.size();) {
    Received received = receive_message(socket.get(), exchange.policy);
    if (received.message.mac != proof_of(exchange.secret, exchange.ranks.front()) || each == 0 ||
        received.descriptors.empty() || received.descriptors.size() % each != 0 ||
        received.descriptors.size() / each > table.size() - filled)
      fail(ErrorCode::remote_error, "rank {} sent other descriptors than were agreed: use one library version",
           exchange.ranks.front());
    for (std::size_t i = 0; i < received.descriptors.size(); ++i)
      table[filled + i / each].push_back(std::move(received.descriptors[i]));
    filled += received.descriptors.size() / each;
    send_message(socket.get(), hello, {}, exchange.policy);
  }
  return table;
}

}  // namespace

Table exchange(const DescriptorExchange& exchange, const std::function<void()>& barrier) {
  if (exchange.rank != exchange.ranks.front()) {
    barrier();
    return run_client(exchange);
  }
  Server server(exchange);
  barrier();
  return server.run();
}

}  // namespace sccl::runtime
