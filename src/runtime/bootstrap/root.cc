// One poll loop over the listening sockets and all connections. No step blocks on a single connection, so a stranger
// that sends anything, or nothing, costs only one entry of the loop until the stranger's deadline.
#include "runtime/bootstrap/root.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/os/thread.h"
#include "base/settings/log.h"
#include "runtime/bootstrap/id_format.h"

namespace sccl::runtime {
namespace {

using namespace wire;

constexpr std::chrono::seconds kHandshakeLimit{5};
// After a failure, the root tells late ranks the reason for this long.
constexpr std::chrono::seconds kAfterFailure{10};
// The oldest stranger is dropped for a new one, so that a flood of connections keeps ranks out only while it lasts.
constexpr std::size_t kMostStrangers = 512;
// A limit per turn, so that a flood of connections leaves time for the ranks that have come.
constexpr int kMostAcceptedATurn = 64;
constexpr int kBriefPauseMs = 20;
constexpr std::size_t kReadBytes = 64 * 1024;
// A process that knows the secret may still announce a wrong number of ranks, which would cost the root memory and
// time.
constexpr int kMostRanks = 1 << 20;
constexpr std::size_t kMostNamed = 32;

// Strangers may use a quarter of the descriptors that this process may have.
std::size_t stranger_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kMostStrangers;
  return std::clamp<std::size_t>(limit.rlim_cur / 4, 1, kMostStrangers);
}

template <typename T>
bool take(Bytes& from, T& value) {
  if (from.size() < sizeof value) return false;
  std::memcpy(&value, from.data(), sizeof value);
  from.erase(from.begin(), from.begin() + sizeof value);
  return true;
}

}  // namespace

Root::Root(std::vector<FileDescriptor> listeners, const Secret& secret, std::chrono::milliseconds idle_limit,
           Succession succession)
    : listeners_(std::move(listeners)),
      secret_(secret),
      idle_limit_(idle_limit),
      succession_(std::move(succession)),
      most_strangers_(stranger_limit()) {}

void Root::Link::send() {
  while (!out.empty()) {
    const ssize_t sent = ::send(socket.get(), out.data(), out.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      out.erase(out.begin(), out.begin() + sent);
      continue;
    }
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    broken = true;
    return;
  }
}

void Root::serve() {
  last_activity_ = Clock::now();
  while (!finished()) {
    wait();
    turn();
    make_way();
    for (const FileDescriptor& listener : listeners_) accept_all(listener);
    if (failed_ && (Clock::now() - failed_at_ > kAfterFailure || is_succeeded())) break;
    if (Clock::now() - last_activity_ > idle_limit_) {
      fail_all(ErrorCode::system_error, missing_text());
      break;
    }
  }
  // Close the listeners before any rank learns that this root ends: the next root may then open at this address.
  listeners_.clear();
  flush_rest();
}

// At a fixed address, a rank that connects after all ranks have come is early for the next communicator. The rank must
// find no root here, so that it tries again.
void Root::make_way() {
  if (!succession_ || listeners_.empty() || ranks_ == 0 || static_cast<int>(members()) < ranks_) return;
  listeners_.clear();
  for (Link& link : links_)
    if (link.is_stranger()) refuse(link, "it came when all ranks had come");
  drop_broken();
}

bool Root::is_succeeded() const {
  return succession_ && succession_->load(std::memory_order_relaxed);  // orders nothing; set by FixedRoots
}

void Root::adopt(FileDescriptor socket, std::string peer) {
  if (strangers() >= most_strangers_) drop_oldest_stranger("too many strangers");
  links_.emplace_back();
  links_.back().socket = std::move(socket);
  links_.back().peer = std::move(peer);
}

void Root::turn() {
  for (Link& link : links_) pump(link);
  drop_broken();
}

bool Root::finished() const { return ranks_ > 0 && left_ >= ranks_; }

std::size_t Root::members() const {
  return static_cast<std::size_t>(
      std::count_if(links_.begin(), links_.end(), [](const Link& link) { return link.stage == Stage::member; }));
}

void Root::wait() {
  std::vector<pollfd> entries;
  // Without a free descriptor the listeners would always be ready, and the loop would spin.
  if (!starved_)
    for (const FileDescriptor& listener : listeners_) entries.push_back({listener.get(), POLLIN, 0});
  for (const Link& link : links_)
    entries.push_back({link.socket.get(), static_cast<short>(link.out.empty() ? POLLIN : POLLIN | POLLOUT), 0});
  const bool awaits_successor = succession_ && failed_;
  ::poll(entries.data(), entries.size(), starved_ || awaits_successor ? kBriefPauseMs : 200);
  starved_ = false;
}

void Root::accept_all(const FileDescriptor& listener) {
  for (int accepted = 0; accepted < kMostAcceptedATurn; ++accepted) {
    Address address;
    address.length = sizeof address.storage;
    FileDescriptor socket(::accept4(listener.get(), reinterpret_cast<sockaddr*>(&address.storage), &address.length,
                                    SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) {
      starved_ = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (starved_) drop_oldest_stranger("no descriptor is free");
      return;
    }
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    adopt(std::move(socket), address.text());
  }
}

std::size_t Root::strangers() const {
  return static_cast<std::size_t>(
      std::count_if(links_.begin(), links_.end(), [](const Link& link) { return link.is_stranger(); }));
}

// Reads the data that has arrived before it drops a link: a rank whose introduction has arrived is no stranger, and
// would have to search again.
void Root::drop_oldest_stranger(const char* why) {
  for (auto link = links_.begin(); link != links_.end(); ++link) {
    if (!link->is_stranger()) continue;
    pump(*link);
    if (!link->is_stranger()) continue;
    if (!link->broken) refuse(*link, why);
    links_.erase(link);
    return;
  }
}

void Root::refuse(Link& link, const char* why) {
  link.broken = true;
  log::info(log::Subsystem::bootstrap, "bootstrap: dropped a connection from {}: {}", link.peer, why);
}

void Root::pump(Link& link) {
  read(link);
  bool progress = true;
  while (progress && !link.broken) progress = advance(link);
  if (link.is_stranger() && !link.broken && Clock::now() - link.since > kHandshakeLimit)
    refuse(link, "it did not introduce itself in time");
  link.send();
}

void Root::read(Link& link) {
  std::array<std::byte, kReadBytes> buffer;
  while (!link.broken) {
    // A stranger may send no more than an introduction.
    const bool stranger = link.is_stranger();
    const std::size_t room = stranger ? sizeof(Hello) + sizeof(Join) - link.in.size() : buffer.size();
    if (room == 0 || room > buffer.size()) return;
    const ssize_t count = ::recv(link.socket.get(), buffer.data(), room, 0);
    if (count > 0) {
      if (link.stage != Stage::left) append(link.in, std::span(buffer).first(static_cast<std::size_t>(count)));
      if (link.stage == Stage::member) last_activity_ = Clock::now();
      if (static_cast<std::size_t>(count) < room) return;
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    link.broken = true;  // messages that arrived before the end are still handled
    bool progress = true;
    while (progress) progress = advance(link);
  }
}

bool Root::advance(Link& link) {
  switch (link.stage) {
    case Stage::hello:
      return take_hello(link);
    case Stage::join:
      return take_join(link);
    case Stage::member:
      return take_frame(link);
    case Stage::left:
      return false;
  }
  return false;
}

bool Root::take_hello(Link& link) {
  Hello hello;
  if (!take(link.in, hello)) return false;
  if (hello.tag != kTag) {
    refuse(link, "it speaks another protocol");
    return false;
  }
  link.nonce = make_nonce();
  const Proof proof{prove(secret_, hello.nonce, Role::root), link.nonce, static_cast<std::uint64_t>(::getpid()),
                    instance_};
  append(link.out, bytes_of(proof));
  link.stage = Stage::join;
  return true;
}

bool Root::take_join(Link& link) {
  Join join;
  if (!take(link.in, join)) return false;
  if (join.mac != prove(secret_, link.nonce, Role::rank)) {
    refuse(link, "it does not know the unique id's secret");
    return false;
  }
  if (join.ranks < 1 || join.ranks > kMostRanks || join.rank < 0 || join.rank >= join.ranks) {
    refuse(link, "it is no rank of its own communicator");
    return false;
  }
  link.stage = Stage::member;
  link.rank = join.rank;
  last_activity_ = Clock::now();
  append(link.out, frame(Kind::welcome, {}));
  if (failed_) {
    append(link.out, *failed_);
    return true;
  }
  if (ranks_ == 0) ranks_ = join.ranks;
  if (join.ranks != ranks_)
    fail_all(ErrorCode::invalid_usage,
             fmt::format("rank {} was started for {} ranks and another rank for {}: pass the same count everywhere",
                         join.rank, join.ranks, ranks_));
  else if (std::count_if(links_.begin(), links_.end(), [&](const Link& other) { return other.rank == join.rank; }) > 1)
    fail_all(ErrorCode::invalid_usage,
             fmt::format("rank {} came twice: give every process or thread a rank of its own", join.rank));
  return true;
}

bool Root::take_frame(Link& link) {
  Header header;
  if (link.in.size() < sizeof header) return false;
  std::memcpy(&header, link.in.data(), sizeof header);
  if (header.length > kMostFrameBytes) {
    refuse(link, "it announced a message that is too long");
    return false;
  }
  if (link.in.size() < sizeof header + header.length) return false;
  const auto begin = link.in.begin() + sizeof header;
  const auto end = begin + static_cast<std::ptrdiff_t>(header.length);
  const Bytes payload(begin, end);
  link.in.erase(link.in.begin(), end);
  handle(link, header.kind, payload);
  return true;
}

void Root::handle(Link& link, Kind kind, const Bytes& payload) {
  switch (kind) {
    case Kind::gather:
      link.blob = payload;
      link.gathered = true;
      finish_round();
      break;
    case Kind::failed:
      fail_all(ErrorCode::remote_error,
               fmt::format("rank {} gave up: {}", link.rank,
                           std::string_view(reinterpret_cast<const char*>(payload.data()), payload.size())));
      break;
    case Kind::missing:
      fail_all(ErrorCode::system_error, missing_text());
      break;
    case Kind::leave:
      link.stage = Stage::left;
      ++left_;
      break;
    default:
      refuse(link, "it sent a message only the root may send");
  }
}

void Root::finish_round() {
  if (failed_ || static_cast<int>(members()) != ranks_) return;
  std::vector<Link*> by_rank(static_cast<std::size_t>(ranks_), nullptr);
  for (Link& link : links_) {
    if (link.stage != Stage::member) continue;
    if (!link.gathered) return;
    by_rank[static_cast<std::size_t>(link.rank)] = &link;
  }
  Bytes all;
  for (Link* link : by_rank) {
    const auto length = static_cast<std::uint64_t>(link->blob.size());
    append(all, bytes_of(length));
    append(all, link->blob);
    link->gathered = false;
  }
  // kMostFrameBytes bounds the frame of one rank; the blobs of many ranks together may exceed it.
  const Bytes message = frame(Kind::gathered, all);
  for (Link* link : by_rank) {
    append(link->out, message);
    link->send();
  }
}

void Root::fail_all(ErrorCode code, const std::string& text) {
  if (failed_) return;
  const auto number = static_cast<std::int32_t>(code);
  Bytes payload;
  append(payload, bytes_of(number));
  append(payload, std::as_bytes(std::span(text)));
  failed_ = frame(Kind::error, payload);
  failed_at_ = Clock::now();
  for (Link& link : links_) {
    if (link.stage != Stage::member) continue;
    append(link.out, *failed_);
    link.send();
  }
}

std::string Root::missing_text() const {
  if (ranks_ == 0) return "no rank came";
  std::vector<bool> came(static_cast<std::size_t>(ranks_), false);
  for (const Link& link : links_)
    if (link.rank >= 0 && link.rank < ranks_) came[static_cast<std::size_t>(link.rank)] = true;
  std::vector<Rank> missing;
  for (Rank rank = 0; rank < ranks_; ++rank)
    if (!came[static_cast<std::size_t>(rank)]) missing.push_back(rank);
  if (missing.empty()) return "all ranks came, but one stopped answering during init: look at the ranks' output";
  const std::size_t named = std::min(missing.size(), kMostNamed);
  return fmt::format(
      "rank {}{} did not come in time: look whether it was started and can reach the root (or raise "
      "SCCL_INIT_TIMEOUT_MS)",
      fmt::join(missing.begin(), missing.begin() + static_cast<std::ptrdiff_t>(named), ", "),
      named == missing.size() ? "" : fmt::format(" and {} more", missing.size() - named));
}

void Root::drop_broken() {
  for (auto link = links_.begin(); link != links_.end();) {
    // Keep the links of ranks that left: they may wait until the others have left, too, which the end of the connection
    // shows (~Bootstrap).
    if (!link->broken) {
      ++link;
      continue;
    }
    const bool died = link->stage == Stage::member;
    const Rank rank = link->rank;
    const std::string peer = link->peer;
    link = links_.erase(link);
    if (!died) continue;
    ++left_;
    fail_all(ErrorCode::remote_error, fmt::format("rank {} ({}) ended during init: look at its output", rank, peer));
  }
}

void Root::flush_rest() {
  const auto until = Clock::now() + std::chrono::seconds(1);
  for (Link& link : links_)
    while (!link.out.empty() && !link.broken && Clock::now() < until) {
      pollfd entry{link.socket.get(), POLLOUT, 0};
      ::poll(&entry, 1, 50);
      link.send();
    }
}

void start_root(std::vector<FileDescriptor> listeners, const Secret& secret, std::chrono::milliseconds idle_limit,
                Succession succession) {
  start_thread([root = std::make_shared<Root>(std::move(listeners), secret, idle_limit, std::move(succession))] {
    try {
      root->serve();
    } catch (const std::exception& error) {
      log::info(log::Subsystem::bootstrap, "bootstrap: the root ended: {}", error.what());
    }
  }).detach();
}

}  // namespace sccl::runtime
