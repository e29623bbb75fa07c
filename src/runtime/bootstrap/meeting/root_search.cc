#include "runtime/bootstrap/meeting/root_search.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace sccl::runtime {
namespace {

// The next attempt starts this long after the previous attempt began.
constexpr std::chrono::milliseconds kHeadStart{30};
// The delay after an address has accepted the connection. With many ranks a root answers slowly, and a second
// connection of each rank would double the root's work and descriptors.
constexpr std::chrono::milliseconds kConnectedStart{500};

constexpr const char* kSilent = "took the connection and says nothing";
constexpr const char* kNoMore = "answered, and then no more";

}  // namespace

std::optional<RootSearch::Found> RootSearch::find(const WaitPolicy& policy,
                                                  const std::function<bool(const wire::Proof&)>& wanted) {
  attempts_.clear();
  outcomes_.resize(addresses_.size(), "no answer");
  std::size_t begun = 0;
  Deadline alone = Deadline::in(kHeadStart);
  while (begun < addresses_.size() || !attempts_.empty()) {
    if (begun < addresses_.size() && (attempts_.empty() || alone.passed())) {
      begin(begun++);
      alone = Deadline::in(kHeadStart);
    }
    std::vector<pollfd> entries;
    for (const Attempt& attempt : attempts_)
      entries.push_back(
          {attempt.socket.get(), static_cast<short>(attempt.stage == Stage::connecting ? POLLOUT : POLLIN), 0});
    WaitPolicy pause = policy;
    if (begun < addresses_.size())
      pause.deadline = Deadline::in(std::chrono::milliseconds(policy.deadline.remaining_ms(alone.remaining_ms(1000))));
    try {
      if (!entries.empty()) wait_for_any(entries, pause);
    } catch (SocketFailure failure) {
      if (failure != SocketFailure::timed_out) throw;
      if (policy.deadline.passed()) break;
    }
    for (Attempt& attempt : attempts_) {
      const Stage before = attempt.stage;
      if (step(attempt, wanted)) {
        outcomes_[attempt.index] = kNoMore;  // stands where the search is in vain after all
        return Found{std::move(attempt.socket), proof_};
      }
      if (attempt.stage != before && attempt.socket.valid()) alone = Deadline::in(kConnectedStart);
    }
    std::erase_if(attempts_, [](const Attempt& attempt) { return !attempt.socket.valid(); });
  }
  note_unfinished();
  return std::nullopt;
}

// The system takes connections for a process that is stopped.
void RootSearch::note_unfinished() {
  for (const Attempt& attempt : attempts_)
    if (attempt.stage == Stage::greeting) outcomes_[attempt.index] = kSilent;
}

bool RootSearch::met_silence() const {
  return std::any_of(outcomes_.begin(), outcomes_.end(),
                     [](const std::string& outcome) { return outcome == kSilent || outcome == kNoMore; });
}

void RootSearch::begin(std::size_t index) {
  const Address& address = addresses_[index];
  Attempt attempt;
  attempt.index = index;
  attempt.socket = open_socket(address.family());
  if (::connect(attempt.socket.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) != 0 &&
      errno != EINPROGRESS && errno != EINTR)
    give_up(attempt, std::strerror(errno));
  else
    attempts_.push_back(std::move(attempt));
}

void RootSearch::give_up(Attempt& attempt, const std::string& why) {
  outcomes_[attempt.index] = why;
  attempt.socket.reset();
}

bool RootSearch::step(Attempt& attempt, const std::function<bool(const wire::Proof&)>& wanted) {
  const int socket = attempt.socket.get();
  if (attempt.stage == Stage::connecting) {
    pollfd entry{socket, POLLOUT, 0};
    if (::poll(&entry, 1, 0) <= 0) return false;
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length);
    attempt.hello = {wire::kTag, wire::make_nonce()};
    // The hello fits into the socket's buffer.
    if (error == 0 && ::send(socket, &attempt.hello, sizeof attempt.hello, MSG_NOSIGNAL) != sizeof attempt.hello)
      error = errno;
    if (error != 0) give_up(attempt, std::strerror(error));
    attempt.stage = Stage::greeting;
    return false;
  }
  std::array<std::byte, sizeof(wire::Proof)> buffer;
  const ssize_t count = ::recv(socket, buffer.data(), buffer.size() - attempt.in.size(), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (count <= 0) {
    give_up(attempt, count == 0 ? "hung up" : std::strerror(errno));
    return false;
  }
  wire::append(attempt.in, std::span(buffer).first(static_cast<std::size_t>(count)));
  if (attempt.in.size() < sizeof proof_) return false;
  std::memcpy(static_cast<void*>(&proof_), attempt.in.data(), sizeof proof_);
  if (proof_.mac != wire::prove(secret_, attempt.hello.nonce, wire::Role::root)) {
    met_stranger_ = true;
    give_up(attempt, "somebody else answers there");
  } else if (!wanted(proof_)) {
    give_up(attempt, "the last communicator's root");
  }
  return attempt.socket.valid();
}

std::string RootSearch::outcome_text() const {
  std::string text;
  for (std::size_t i = 0; i < addresses_.size(); ++i)
    text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", addresses_[i].text(),
                        i < outcomes_.size() ? outcomes_[i] : std::string("not tried"));
  return text;
}

}  // namespace sccl::runtime
