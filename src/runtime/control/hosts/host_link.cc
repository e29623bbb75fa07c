#include "runtime/control/hosts/host_link.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/settings/log.h"
#include "runtime/bootstrap/sockets/socket.h"

namespace sccl::runtime::hosts {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;
// An attempt that nobody answers makes room for the next.
constexpr std::chrono::seconds kAttemptLimit{5};

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

// An introduction fits into every socket's buffer: what is not taken at once is not taken at all.
bool send_whole(int socket, std::span<const std::byte> bytes) {
  ssize_t sent = 0;
  do sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(bytes.size());
}

Address local_address(int socket) {
  Address address;
  address.length = sizeof address.storage;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.length);
  return address;
}

}  // namespace

void OutLink::dial(const std::vector<Candidate>& candidates, std::chrono::milliseconds user_timeout) {
  close();
  user_timeout_ = user_timeout;
  outcomes_.clear();
  state_ = State::dialing;
  for (const Candidate& candidate : candidates) {
    Attempt attempt;
    attempt.candidate = candidate;
    attempt.socket = host::UnforkedDescriptor(
        FileDescriptor(::socket(candidate.address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)));
    const int result = attempt.socket.valid() ? ::connect(attempt.socket.get(),
                                                          reinterpret_cast<const sockaddr*>(&candidate.address.storage),
                                                          candidate.address.length)
                                              : -1;
    if (result != 0 && errno != EINPROGRESS && errno != EINTR)
      give_up(attempt, errno);
    else
      attempts_.push_back(std::move(attempt));
  }
  if (attempts_.empty()) state_ = State::closed;
}

void OutLink::give_up(const Attempt& attempt, int error) {
  const Candidate& candidate = attempt.candidate;
  if (error == ECONNREFUSED) refusals_.push_back({candidate.rank, candidate.index});
  outcomes_.push_back({candidate.address.text(), error == 0 ? "somebody else answers there" : std::strerror(error)});
}

bool OutLink::step(Attempt& attempt) {
  if (attempt.stage == Stage::connecting) {
    pollfd entry{attempt.socket.get(), POLLOUT, 0};
    if (::poll(&entry, 1, 0) <= 0) {
      if (Clock::now() - attempt.since < kAttemptLimit) return true;
      give_up(attempt, ETIMEDOUT);
      return false;
    }
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(attempt.socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    attempt.hello = {kTag, wire::make_nonce(), own_.identity, own_.rank, own_.host, to_, 0};
    if (error == 0 && !send_whole(attempt.socket.get(), wire::bytes_of(attempt.hello))) error = ECONNRESET;
    if (error != 0) {
      give_up(attempt, error);
      return false;
    }
    attempt.stage = Stage::greeting;
  }
  return take_welcome(attempt);
}

// A host's other ranks have listeners, too, whose connections nobody takes before their agent is the host's: no answer
// is no failure.
bool OutLink::take_welcome(Attempt& attempt) {
  Welcome welcome;
  std::array<std::byte, sizeof welcome> buffer;
  const ssize_t count = ::recv(attempt.socket.get(), buffer.data(), sizeof welcome - attempt.in.size(), 0);
  if (count == 0 || (count < 0 && !would_block(errno) && errno != EINTR)) {
    give_up(attempt, count == 0 ? ECONNRESET : errno);
    return false;
  }
  if (count > 0) wire::append(attempt.in, std::span(buffer).first(static_cast<std::size_t>(count)));
  if (attempt.in.size() < sizeof welcome) return true;
  std::memcpy(static_cast<void*>(&welcome), attempt.in.data(), sizeof welcome);
  const Proof proof{prove(own_.secret, welcome.nonce, attempt.hello, Side::dialer)};
  if (welcome.mac != prove(own_.secret, attempt.hello.nonce, attempt.hello, Side::listener) ||
      !send_whole(attempt.socket.get(), wire::bytes_of(proof))) {
    give_up(attempt, 0);
    return false;
  }
  prepare_connection(attempt.socket.get(), user_timeout_);
  socket_ = std::move(attempt.socket);
  good_index_ = attempt.candidate.index;
  good_rank_ = attempt.candidate.rank;
  own_address_ = local_address(socket_.get());
  key_ = frame_key(own_.secret, attempt.hello.nonce, welcome.nonce);
  frames_ = 0;
  state_ = State::open;
  return true;
}

void OutLink::turn() {
  if (state_ == State::dialing) {
    for (auto attempt = attempts_.begin(); attempt != attempts_.end() && state_ == State::dialing;)
      attempt = step(*attempt) ? attempt + 1 : attempts_.erase(attempt);
    if (state_ == State::open)
      attempts_.clear();
    else if (attempts_.empty())
      state_ = State::closed;
  }
  if (state_ == State::open) flush();
}

void OutLink::flush() {
  std::array<std::byte, 64> unexpected;
  const ssize_t count = ::recv(socket_.get(), unexpected.data(), unexpected.size(), 0);
  if (count >= 0 || (!would_block(errno) && errno != EINTR)) return close();
  while (sent_ < out_.size()) {
    const ssize_t taken = ::send(socket_.get(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
    if (taken < 0 && errno == EINTR) continue;
    if (taken < 0 && would_block(errno)) return;
    if (taken <= 0) return close();
    sent_ += static_cast<std::size_t>(taken);
  }
  out_.clear();
  sent_ = 0;
}

void OutLink::close() {
  socket_.reset();
  attempts_.clear();
  out_.clear();
  sent_ = 0;
  state_ = State::closed;
}

void OutLink::send(FrameKind kind, std::span<const std::byte> payload) {
  if (state_ != State::open) return;
  const FrameHead head{kind, static_cast<std::uint32_t>(payload.size()), frame_mac(key_, frames_++, kind, payload)};
  wire::append(out_, wire::bytes_of(head));
  wire::append(out_, payload);
  flush();
}

void OutLink::add_poll_entries(std::vector<pollfd>& entries) const {
  for (const Attempt& attempt : attempts_) {
    const short events = attempt.stage == Stage::connecting ? POLLOUT : POLLIN;
    entries.push_back({attempt.socket.get(), events, 0});
  }
  if (state_ == State::open)
    entries.push_back({socket_.get(), static_cast<short>(backlog() > 0 ? POLLIN | POLLOUT : POLLIN), 0});
}

std::string OutLink::outcome_text() const {
  std::string text;
  const auto add = [&](const std::string& address, const std::string& outcome) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", address, outcome);
  };
  for (const Outcome& outcome : outcomes_) add(outcome.address, outcome.text);
  for (const Attempt& attempt : attempts_)
    add(attempt.candidate.address.text(), attempt.stage == Stage::connecting ? "no answer" : "no agent answers");
  return text;
}

void InLink::drop(const char* why) {
  if (broken_) return;
  broken_ = true;
  log::info(log::Subsystem::net, "agent: dropped a connection from {}: {}", peer_, why);
}

void InLink::turn(const Credentials& own, const std::function<bool(const Hello&)>& may_come, const OnFrame& on_frame) {
  if (broken_) return;
  read();
  while (!broken_ && advance(own, may_come, on_frame)) {
  }
  in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(taken_));
  taken_ = 0;
  broken_ = broken_ || ended_;
}

void InLink::read() {
  std::array<std::byte, kReadBytes> buffer;
  while (!ended_) {
    // A stranger may send no more than an introduction.
    const std::size_t room = is_stranger() ? sizeof(Hello) + sizeof(Proof) - in_.size() : buffer.size();
    if (room == 0 || in_.size() > kMostFrameBytes + sizeof(FrameHead)) return;
    const ssize_t count = ::recv(socket_.get(), buffer.data(), std::min(room, buffer.size()), 0);
    if (count > 0) {
      wire::append(in_, std::span(buffer).first(static_cast<std::size_t>(count)));
      heard_ = Clock::now();
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && would_block(errno)) return;
    ended_ = true;
  }
}

bool InLink::advance(const Credentials& own, const std::function<bool(const Hello&)>& may_come,
                     const OnFrame& on_frame) {
  switch (stage_) {
    case Stage::hello:
      return take_hello(own, may_come);
    case Stage::proof:
      return take_proof(own);
    case Stage::open:
      return take_frame(on_frame);
  }
  return false;
}

bool InLink::take_hello(const Credentials& own, const std::function<bool(const Hello&)>& may_come) {
  if (in_.size() - taken_ < sizeof hello_) return false;
  std::memcpy(static_cast<void*>(&hello_), in_.data() + taken_, sizeof hello_);
  taken_ += sizeof hello_;
  if (hello_.tag != kTag || hello_.identity != own.identity || hello_.to != own.host || !may_come(hello_)) {
    drop("it speaks another protocol, or of another communicator");
    return false;
  }
  nonce_ = wire::make_nonce();
  const Welcome welcome{prove(own.secret, hello_.nonce, hello_, Side::listener), nonce_};
  if (!send_whole(socket_.get(), wire::bytes_of(welcome))) drop("it does not listen");
  stage_ = Stage::proof;
  return !broken_;
}

Address InLink::own_address() const { return local_address(socket_.get()); }

bool InLink::take_proof(const Credentials& own) {
  Proof proof;
  if (in_.size() - taken_ < sizeof proof) return false;
  std::memcpy(static_cast<void*>(&proof), in_.data() + taken_, sizeof proof);
  taken_ += sizeof proof;
  if (proof.mac != prove(own.secret, nonce_, hello_, Side::dialer)) {
    drop("it does not know the unique id's secret");
    return false;
  }
  key_ = frame_key(own.secret, hello_.nonce, nonce_);
  stage_ = Stage::open;
  prepare_connection(socket_.get(), std::chrono::milliseconds(3000));
  read();
  return true;
}

bool InLink::take_frame(const OnFrame& on_frame) {
  FrameHead head;
  if (in_.size() - taken_ < sizeof head) return false;
  std::memcpy(static_cast<void*>(&head), in_.data() + taken_, sizeof head);
  if (head.bytes > kMostFrameBytes) {
    drop("it announced a message that is too long");
    return false;
  }
  if (in_.size() - taken_ - sizeof head < head.bytes) return false;
  const std::span<const std::byte> payload(in_.data() + taken_ + sizeof head, head.bytes);
  if (head.mac != frame_mac(key_, frames_, head.kind, payload)) {
    drop("a message was not the one that its host's agent sent");
    return false;
  }
  ++frames_;
  taken_ += sizeof head + head.bytes;
  if (!on_frame(head.kind, payload)) drop("a message made no sense");
  return !broken_;
}

}  // namespace sccl::runtime::hosts
