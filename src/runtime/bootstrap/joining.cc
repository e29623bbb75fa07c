#include "runtime/bootstrap/joining.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>

#include "base/error.h"
#include "base/settings/env.h"
#include "base/settings/log.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/bootstrap/fixed_address.h"
#include "runtime/bootstrap/host_leader.h"
#include "runtime/bootstrap/meeting/root.h"
#include "runtime/bootstrap/sockets/first_half.h"
#include "runtime/bootstrap/sockets/interfaces.h"

namespace sccl::runtime {
namespace {

using namespace wire;

constexpr std::chrono::milliseconds kGreetingLimit{2000};
constexpr std::int64_t kLeaderPauseMs = 2;
// After the deadline, for a leader that has found no root to say so.
constexpr std::chrono::milliseconds kLeadersWordLimit{2000};

std::vector<IdContent> decode_all(Rank rank, std::vector<UniqueId>& ids) {
  std::vector<UniqueId> kept;
  for (const UniqueId& id : ids)
    if (std::none_of(kept.begin(), kept.end(), [&](const UniqueId& one) { return one.bytes == id.bytes; }))
      kept.push_back(id);
  ids = std::move(kept);
  std::vector<IdContent> contents;
  for (const UniqueId& id : ids) {
    try {
      contents.push_back(decode(id));
    } catch (const Error& error) {
      const std::string which =
          ids.size() == 1 ? "" : fmt::format(", unique id {} of {}", contents.size() + 1, ids.size());
      fail(error.code(), "rank {} on host {}{}: {}", rank, own_host_name().data(), which, error.what());
    }
  }
  return contents;
}

}  // namespace

Joining::Joining(JoinRequest request) : request_(std::move(request)), ids_(decode_all(request_.rank, request_.ids)) {
  ids_hash_ = siphash({0x1d5, 0}, std::as_bytes(std::span(request_.ids)));
}

std::size_t Joining::number() const {
  return static_cast<std::size_t>(request_.rank) * ids_.size() / static_cast<std::size_t>(request_.ranks);
}

bool Joining::goes_through_leader() const { return request_.ranks > host_fanout(); }

Joined Joining::join(Deadline deadline) {
  return goes_through_leader() ? join_through_leader(deadline) : join_root(Joiner::rank, deadline);
}

Join Joining::introduction(Joiner joiner) const {
  Join join;
  join.rank = request_.rank;
  join.ranks = request_.ranks;
  join.joiner = joiner;
  join.id_number = static_cast<std::uint32_t>(number());
  join.id_count = static_cast<std::uint32_t>(ids_.size());
  join.ids_hash = ids_hash_;
  join.host = own_host_name();
  if (joiner == Joiner::leader) join.place = Place::of(own_addresses_);
  if (number() > 0) join.first = {first().secret, Place::of(first().addresses)};
  return join;
}

std::optional<Joined> Joining::try_node(RootSearch& search, Join join, const Secret& secret, Deadline greeting,
                                        Deadline deadline) {
  const WaitPolicy policy = until(greeting);
  const std::string address = first().fixed ? first().addresses.front().text() : "";
  std::optional<RootSearch::Found> found;
  try {
    // A root that this rank has joined before belongs to the last communicator; the next root is not open yet.
    found = search.find(policy, [&](const Proof& proof) {
      return !first().fixed || !has_joined(address, request_.rank, proof.instance);
    });
    if (!found) return std::nullopt;
    join.mac = prove(secret, found->proof.nonce, Role::rank);
    // Only what both sides know takes the mask off.
    join.first.masked_secret = masked(join.first.masked_secret, secret, found->proof.nonce);
    introduced_ = true;
    send_all(found->socket.get(), bytes_of(join), policy);
  } catch (SocketFailure failure) {
    if (failure == SocketFailure::aborted) throw;
    return std::nullopt;
  }
  if (first().fixed) note_joined(address, request_.rank, found->proof.instance);
  return take_welcome(std::move(found->socket), join, deadline);
}

// The root drops a connection whose introduction comes late. That happens when this process is stopped for seconds
// between the root's proof and the introduction.
std::optional<Joined> Joining::take_welcome(FileDescriptor socket, const Join& join, Deadline deadline) {
  try {
    Header header;
    Joined joined;
    Redirect redirect;
    receive_all(socket.get(), writable_bytes_of(header), until(deadline));
    if (header.kind == Kind::welcome && header.length == sizeof joined.welcome) {
      receive_all(socket.get(), writable_bytes_of(joined.welcome), until(deadline));
      if (joined.welcome.version != libsccl_version()) refuse_version(socket, join, joined.welcome);
      joined.socket = std::move(socket);
      return joined;
    }
    if (header.kind != Kind::redirect || header.length != sizeof redirect || join.joiner != Joiner::leader)
      return std::nullopt;
    receive_all(socket.get(), writable_bytes_of(redirect), until(deadline));
    return follow(redirect, std::move(socket), join, deadline);
  } catch (SocketFailure failure) {
    if (failure != SocketFailure::closed) throw;
    return std::nullopt;
  }
}

// The node may be of a version that does not compare versions: it is told.
void Joining::refuse_version(const FileDescriptor& socket, const Join& join, const Welcome& welcome) const {
  const std::string text = versions_text(join, welcome.version);
  const Bytes told = join.joiner == Joiner::leader
                         ? frame(Kind::error, error_of(static_cast<std::int32_t>(ErrorCode::invalid_usage), text))
                         : frame(Kind::failed, std::as_bytes(std::span(text)));
  const WaitPolicy brief = until(Deadline::in(kGreetingLimit));
  try {
    send_all(socket.get(), told, brief);
    send_all(socket.get(), frame(Kind::leave, {}), brief);
  } catch (SocketFailure) {
    // The node has found that out itself.
  }
  fail(ErrorCode::invalid_usage, "{}", text);
}

// The connection to the root stays open until this leader has joined the other one: the root sees if it ends meanwhile.
std::optional<Joined> Joining::follow(const Redirect& redirect, FileDescriptor root, const Join& join,
                                      Deadline deadline) {
  const auto limit = std::chrono::milliseconds(deadline.remaining_ms(static_cast<int>(kGreetingLimit.count())));
  const std::vector<Address> addresses = redirect.place.list();
  RootSearch search(addresses, first().secret);
  Join other = join;
  other.id_number = 0;  // a leader needs no way to the first root
  other.first = {};
  if (auto joined = try_node(search, other, first().secret, Deadline::in(limit), deadline)) {
    send_all(root.get(), frame(Kind::placed, {}), until(deadline));
    return joined;
  }
  log::info(log::Subsystem::bootstrap, "bootstrap: rank {} joins the root itself: it does not reach rank {} at {}",
            request_.rank, redirect.leader, search.outcome_text());
  send_all(root.get(), frame(Kind::unplaced, {}), until(deadline));
  Join itself = join;
  itself.joiner = Joiner::rank;  // is redirected no more
  return take_welcome(std::move(root), itself, deadline);
}

void Joining::pause(std::int64_t milliseconds, Deadline deadline) const {
  const Deadline end = Deadline::in(std::chrono::milliseconds(milliseconds));
  while (!end.passed() && !deadline.passed()) {
    if (request_.abort->load(std::memory_order_acquire)) throw SocketFailure::aborted;  // pairs with abort()
    if (request_.watch) request_.watch();
    std::this_thread::sleep_for(std::chrono::milliseconds(end.remaining_ms(20)));
  }
}

Joined Joining::join_root(Joiner joiner, Deadline deadline) {
  constexpr const char* kAttempts = "NCCL_SOCKET_RETRY_CNT";
  const auto attempts = env::number(kAttempts, 34, 0, 1000000);
  const auto pause_ms = env::number("NCCL_SOCKET_RETRY_SLEEP_MSEC", 100, 0, 100000);
  // Rank 0 opens the root at a fixed address, and may come later than this rank.
  const bool until_deadline = first().fixed && !env::text(kAttempts);
  RootSearch search(own().addresses, own().secret);
  for (std::int64_t attempt = 0; until_deadline || attempt <= attempts; ++attempt) {
    const auto limit = std::chrono::milliseconds(deadline.remaining_ms(static_cast<int>(kGreetingLimit.count())));
    try {
      if (auto joined = try_node(search, introduction(joiner), own().secret, Deadline::in(limit), deadline))
        return std::move(*joined);
    } catch (SocketFailure failure) {
      if (failure != SocketFailure::timed_out) throw;
    }
    if (deadline.passed()) break;
    const std::int64_t brief_ms = first().fixed ? std::int64_t{1} << std::min<std::int64_t>(attempt, 10) : pause_ms;
    pause(std::min(brief_ms, pause_ms), deadline);
  }
  searched_ = true;
  fail_unfound(search);
}

// If the leader ends before it has joined, another rank takes the name. The leader answers when it has joined the root.
Joined Joining::join_through_leader(Deadline deadline) {
  const Deadline last = deadline.later(kLeadersWordLimit);
  const std::vector<Address> addresses{leader_address(first().secret, host_hash())};
  RootSearch search(addresses, first().secret);
  Join join = introduction(Joiner::rank);
  join.id_number = 0;  // the leader knows the way to the roots
  join.first = {};
  while (true) {
    if (FileDescriptor listener = listen_as_leader(addresses.front()); listener.valid())
      return lead(std::move(listener), deadline);
    try {
      if (auto joined = try_node(search, join, first().secret, last, last)) return std::move(*joined);
    } catch (SocketFailure failure) {
      if (failure != SocketFailure::timed_out) throw;
    }
    if (last.passed()) fail_with_silent_leader(addresses.front());
    pause(kLeaderPauseMs, deadline);
  }
}

Joined Joining::lead(FileDescriptor listener, Deadline deadline) {
  RootSetup setup{{}, first().secret, init_timeout(), host_fanout(), {}, request_.rank};
  std::optional<Address> root;
  if (first().fixed) root = first().addresses.front();
  own_addresses_ = listening_addresses(root, first_half(deadline));
  for (Address& address : own_addresses_) setup.listeners.push_back(listen_on(address));
  setup.listeners.push_back(std::move(listener));
  Joined above;
  try {
    above = join_root(Joiner::leader, deadline);
  } catch (const Error& error) {
    start_refusal(std::move(setup), error);
    throw;
  }
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0)
    fail_errno(errno, "opening a socket", "raise the limit on open files (ulimit -n)");
  Joined own{FileDescriptor(ends[0]), {above.welcome.instance, request_.rank}};
  LeaderSetup leader{Upstream(std::move(above.socket), above.welcome, request_.ranks),
                     FileDescriptor(ends[1]),
                     {request_.rank, request_.ranks, ids_hash_, own_host_name()}};
  start_leader(std::move(setup), std::move(leader));
  return own;
}

std::optional<Joined> Joining::try_once(Joiner joiner, Deadline deadline) {
  const bool is_orphan = joiner == Joiner::orphan;
  const IdContent& id = is_orphan ? own() : first();
  RootSearch search(id.addresses, id.secret);
  Join join = introduction(joiner);
  if (!is_orphan) {
    join.id_number = 0;
    join.first = {};
  }
  return try_node(search, join, id.secret, deadline, deadline);
}

void Joining::fail_unfound(const RootSearch& search) const {
  const std::string tried = search.outcome_text();
  const std::string which =
      ids_.size() == 1 ? "this unique id" : fmt::format("unique id {} of {}", number() + 1, ids_.size());
  const Rank rank = request_.rank;
  if (search.met_stranger())
    fail(ErrorCode::system_error, "rank {} was answered at {} by somebody who does not know the secret of {}: {}", rank,
         tried, which,
         first().fixed ? "give all ranks the same NCCL_COMM_ID and SCCL_COMM_SECRET (or SCCL_COMM_SECRET_FILE)"
                       : "another program holds the port, so make a new id");
  if (search.met_silence())
    fail(ErrorCode::system_error,
         "rank {} on host {} hears nothing from the root of {} at {}: the process {} is stopped or hangs, or another "
         "program listens there: continue it (kill -CONT), or start the job again; or a link on the way loses long "
         "packets: give the interfaces on it one packet length (MTU)",
         rank, own_host_name().data(), which, tried, first().fixed ? "of rank 0" : "that made the id");
  if (first().fixed)
    fail(ErrorCode::system_error,
         "rank {} finds no root at {}, which NCCL_COMM_ID names: was rank 0 started, and on that host (or raise "
         "SCCL_INIT_TIMEOUT_MS)?",
         rank, tried);
  fail(ErrorCode::system_error,
       "rank {} on host {} finds no root of {} at {}: is the process that made the id still running, and do the "
       "interfaces reach one another (NCCL_SOCKET_IFNAME)?{}",
       rank, own_host_name().data(), which, tried, hindered_interfaces());
}

void Joining::fail_with_silent_leader(const Address& address) const {
  const pid_t process = process_that_leads(address);
  fail(ErrorCode::system_error,
       "rank {} on host {} hears nothing from the rank through which the ranks of its host meet{}: that process is "
       "stopped or hangs: continue it (kill -CONT), or start the job again",
       request_.rank, own_host_name().data(), process > 0 ? fmt::format(" (process {})", process) : "");
}

}  // namespace sccl::runtime
