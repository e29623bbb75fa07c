// The first rank, the server, collects all descriptors and sends all of them to each rank. The server waits for a
// rank's acknowledgement before it serves the next rank, because descriptors in flight count against the limit on open
// files.
#include "runtime/bootstrap/descriptors.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "runtime/bootstrap/meeting/wire.h"

namespace sccl::runtime {
namespace {

// Linux passes at most 253 descriptors in one message.
constexpr std::size_t kMostPassed = 240;

struct Message {
  std::uint64_t mac = 0;
  wire::Nonce nonce{};
  std::int32_t rank = 0;   // of the sender
  std::int32_t first = 0;  // number of descriptors in earlier messages
};

struct SocketName {
  sockaddr_un address{};
  socklen_t length = 0;
};

constexpr std::size_t kNameBytes = 21;  // "sccl-" and 16 digits

SocketName socket_name(const Bytes& text) {
  SocketName name;
  name.address.sun_family = AF_UNIX;
  if (text.size() != kNameBytes)
    fail(ErrorCode::remote_error,
         "the rank that serves the exchange of descriptors names no socket: use one library "
         "version on all ranks");
  std::memcpy(name.address.sun_path + 1, text.data(), text.size());
  name.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return name;
}

Bytes random_name() {
  const std::string text = fmt::format("sccl-{:016x}", wire::make_nonce()[0]);
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

enum class Side : std::uint64_t { server = 1, client = 2 };

// `rank` is the client's, for both sides.
std::uint64_t proof_of(const Secret& secret, const wire::Nonce& nonce, Rank rank, Side side) {
  const std::array<std::uint64_t, 5> message{nonce[0], nonce[1], static_cast<std::uint64_t>(wire::Role::descriptors),
                                             static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(side)};
  return siphash(secret, std::as_bytes(std::span(message)));
}

// The user at the other end of a connected socket.
uid_t user_of(const FileDescriptor& socket) {
  ucred who{};
  socklen_t length = sizeof who;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &length) != 0)
    fail_errno(errno, "asking who is at the other end of a Unix socket", "allow the system call");
  return who.uid;
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

// Returns nothing if no message has arrived. Throws SocketFailure::closed if the packet is not a Message.
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

// The descriptors from `first` on that fit into one message.
std::span<const int> batch(std::span<const int> descriptors, std::size_t first) {
  return descriptors.subspan(first, std::min(kMostPassed, descriptors.size() - first));
}

class Server {
 public:
  explicit Server(const DescriptorExchange& exchange) : exchange_(exchange), listener_(unix_socket()) {
    while (true) {
      name_ = random_name();
      const SocketName name = socket_name(name_);
      if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&name.address), name.length) == 0) break;
      if (errno != EADDRINUSE) fail_errno(errno, "binding an abstract Unix socket", "allow Unix sockets");
    }
    if (::listen(listener_.get(), static_cast<int>(exchange.ranks.size()) + 16) != 0)
      fail_errno(errno, "listening on an abstract Unix socket", "allow Unix sockets");
  }

  const Bytes& name() const { return name_; }

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
  // A connection that has not yet proved that it is a rank. Every process of the host can read the socket's name, so
  // strangers may connect and stay silent. All callers are therefore served side by side, and if there are too many,
  // the oldest is dropped.
  struct Caller {
    FileDescriptor socket;
    wire::Nonce nonce{};  // sent in the greeting
    bool greeted = false;
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
        if (auto received = try_receive(caller.socket.get()))
          caller.refused = !(caller.greeted ? admit(caller, std::move(*received)) : greet(caller, received->message));
      } catch (SocketFailure failure) {
        if (failure != SocketFailure::closed) throw;
        caller.refused = true;  // a stranger, or a rank that died, which the root reports
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

  bool greet(Caller& caller, const Message& hello) {
    caller.nonce = wire::make_nonce();
    caller.greeted = true;
    // A new connection has room for the greeting. A connection without room belongs to a stranger.
    const Message greeting{proof_of(exchange_.secret, hello.nonce, hello.rank, Side::server), caller.nonce,
                           exchange_.rank, 0};
    return ::send(caller.socket.get(), &greeting, sizeof greeting, MSG_NOSIGNAL) == sizeof greeting;
  }

  // Takes over the caller's socket if the caller is an expected rank.
  bool admit(Caller& caller, Received received) {
    const Rank rank = received.message.rank;
    const auto position = std::find(exchange_.ranks.begin(), exchange_.ranks.end(), rank);
    if (position == exchange_.ranks.end() ||
        received.message.mac != proof_of(exchange_.secret, caller.nonce, rank, Side::client))
      return false;
    if (const uid_t user = user_of(caller.socket); user != ::geteuid())
      fail(ErrorCode::invalid_usage, "rank {} runs as user {} and rank {} as user {}: run all ranks as one user", rank,
           user, exchange_.rank, ::geteuid());
    const auto index = static_cast<std::size_t>(position - exchange_.ranks.begin());
    if (index == 0 || clients_[index].valid()) return false;
    clients_[index] = std::move(caller.socket);
    keep(index, std::move(received));
    while (table_[index].size() < exchange_.counts[index]) {
      send_message(clients_[index].get(), {}, {}, exchange_.policy);
      keep(index, receive_message(clients_[index].get(), exchange_.policy));
    }
    ++come_;
    return true;
  }

  void keep(std::size_t index, Received received) {
    if (received.truncated) fail_without_room();
    const std::size_t awaited = exchange_.counts[index] - table_[index].size();
    if (received.descriptors.size() != std::min(awaited, kMostPassed))
      fail(ErrorCode::remote_error, "rank {} sent other descriptors than were agreed: use one library version",
           exchange_.ranks[index]);
    std::move(received.descriptors.begin(), received.descriptors.end(), std::back_inserter(table_[index]));
  }

  void serve(int client) {
    std::vector<int> all;
    for (const auto& theirs : table_)
      for (const FileDescriptor& descriptor : theirs) all.push_back(descriptor.get());
    for (std::size_t first = 0; first < all.size(); first += kMostPassed) {
      const Message message{0, {}, exchange_.rank, static_cast<std::int32_t>(first)};
      send_message(client, message, batch(all, first), exchange_.policy);
      receive_message(client, exchange_.policy);
    }
  }

  const DescriptorExchange& exchange_;
  FileDescriptor listener_;
  Bytes name_;
  Table table_;
  std::vector<FileDescriptor> clients_;
  std::size_t come_ = 1;
  std::vector<Caller> callers_;
};

// Throws when the alarm comes, when the call is aborted or when its deadline passes; else returns after `span`.
void wait_for_alarm(const DescriptorExchange& exchange, std::chrono::milliseconds span) {
  const WaitPolicy brief{Deadline::in(span), exchange.policy.abort, exchange.policy.alarm, exchange.policy.watch};
  try {
    wait_for_any({}, brief);
  } catch (SocketFailure failure) {
    if (failure != SocketFailure::timed_out || exchange.policy.deadline.passed()) throw;
  }
}

FileDescriptor connect_to_server(const DescriptorExchange& exchange, const SocketName& name) {
  while (true) {
    FileDescriptor socket = unix_socket();
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name.address), name.length) == 0) {
      if (const uid_t user = user_of(socket); user != ::geteuid())
        fail(ErrorCode::invalid_usage,
             "rank {} runs as user {}, and the socket that it named belongs to user {}: run all ranks as one user",
             exchange.rank, ::geteuid(), user);
      return socket;
    }
    const int error = errno;
    if (error == EAGAIN || error == EINTR) {
      wait_for_alarm(exchange, std::chrono::milliseconds(1));  // the server's queue is full for a moment
      continue;
    }
    // If the server has died, the root reports that soon.
    wait_for_alarm(exchange, std::chrono::milliseconds(500));
    fail_errno(error, fmt::format("reaching rank {} through a Unix socket", exchange.ranks.front()),
               "run the ranks in one network namespace, or give them different NCCL_HOSTID");
  }
}

// Sends this rank's descriptors, after the server has proved that it knows the secret.
void introduce(int socket, const DescriptorExchange& exchange) {
  const Message hello{0, wire::make_nonce(), exchange.rank, 0};
  send_message(socket, hello, {}, exchange.policy);
  const Message greeting = receive_message(socket, exchange.policy).message;
  if (greeting.mac != proof_of(exchange.secret, hello.nonce, exchange.rank, Side::server))
    fail(ErrorCode::remote_error,
         "rank {} met a stranger where rank {} was to exchange shared memory: make a new communicator", exchange.rank,
         exchange.ranks.front());
  Message proof{proof_of(exchange.secret, greeting.nonce, exchange.rank, Side::client), {}, exchange.rank, 0};
  std::size_t sent = 0;
  do {
    const auto passed = batch(exchange.mine, sent);
    if (sent > 0) receive_message(socket, exchange.policy);
    proof.first = static_cast<std::int32_t>(sent);
    send_message(socket, proof, passed, exchange.policy);
    sent += passed.size();
  } while (sent < exchange.mine.size());
}

Table run_client(const DescriptorExchange& exchange, const SocketName& name) {
  const FileDescriptor socket = connect_to_server(exchange, name);
  introduce(socket.get(), exchange);
  std::size_t awaited = std::accumulate(exchange.counts.begin(), exchange.counts.end(), std::size_t{0});
  std::vector<FileDescriptor> all;
  while (awaited > 0) {
    Received received = receive_message(socket.get(), exchange.policy);
    if (received.descriptors.size() != std::min(awaited, kMostPassed))
      fail(ErrorCode::remote_error, "rank {} sent other descriptors than were agreed: use one library version",
           exchange.ranks.front());
    awaited -= received.descriptors.size();
    std::move(received.descriptors.begin(), received.descriptors.end(), std::back_inserter(all));
    send_message(socket.get(), {0, {}, exchange.rank, 0}, {}, exchange.policy);
  }
  Table table(exchange.ranks.size());
  auto next = all.begin();
  for (std::size_t i = 0; i < table.size(); ++i)
    for (std::size_t count = 0; count < exchange.counts[i]; ++count) table[i].push_back(std::move(*next++));
  return table;
}

}  // namespace

Table exchange(const DescriptorExchange& exchange, const std::function<Bytes(const Bytes&)>& meet) {
  if (exchange.rank != exchange.ranks.front()) return run_client(exchange, socket_name(meet({})));
  Server server(exchange);
  meet(server.name());
  return server.run();
}

}  // namespace sccl::runtime
