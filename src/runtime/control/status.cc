// Everything shown lies in the ranks' shared memory as atomics (SharedState::Activity), so that any process of a
// communicator can show all of its ranks, and nothing is asked of the threads that communicate.
#include "runtime/control/status.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "runtime/control/memberships.h"
#include "runtime/membership/membership.h"

namespace sccl::runtime {
namespace {

using nlohmann::json;

const char* presence_name(const SharedState& state) {
  switch (static_cast<Presence>(state.presence.load(std::memory_order_acquire))) {  // pairs with Executor::leave
    case Presence::present:
      return "present";
    case Presence::revoked:
      return "revoked";
    case Presence::destroyed:
      return "destroyed";
    case Presence::aborted:
      return "aborted";
  }
  return "";
}

json describe(const Peer& peer, Rank rank) {
  const SharedState& state = *peer.state;
  json waits = json::array();
  for (const auto& other : state.activity.waits_for)
    if (const Rank awaited = other.load(std::memory_order_relaxed); awaited >= 0) waits.push_back(awaited);
  const std::uint64_t since = state.activity.waits_since_us.load(std::memory_order_relaxed);
  const double seconds = waits.empty() || since == 0 ? 0.0 : static_cast<double>(monotonic_us() - since) * 1e-6;
  json entry{{"rank", rank},
             {"process", peer.process},
             {"host", peer.host},
             {"state", peer.has_ended() ? "ended" : presence_name(state)},
             {"call", state.activity.entered.load(std::memory_order_relaxed)},
             {"doing", doing_text(state)},
             {"waits_for", std::move(waits)},
             {"waits_seconds", seconds}};
  if (state.fault.load(std::memory_order_acquire) != 0)  // pairs with publish_fault
    entry["fault"] = std::string(state.fault_text.data());
  return entry;
}

json describe(const Membership& membership, std::size_t number) {
  json ranks = json::array();
  for (Rank rank = 0; rank < membership.ranks; ++rank)
    ranks.push_back(describe(membership.peers[static_cast<std::size_t>(rank)], rank));
  return {{"communicator", number},   {"identity", membership.identity_text()},
          {"name", membership.name},  {"rank", membership.rank},
          {"size", membership.ranks}, {"bytes", membership.layout.total_bytes()},
          {"ranks", std::move(ranks)}};
}

int open_listener() {
  const std::string name = status_socket_name(::getpid());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  FileDescriptor made(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!made.valid() || ::bind(made.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      ::listen(made.get(), 16) != 0)
    fail_errno(errno, "opening the status socket " + name, "allow Unix sockets");
  return made.release();
}

bool may_ask(const FileDescriptor& caller) {
  ucred who{};
  socklen_t length = sizeof who;
  if (::getsockopt(caller.get(), SOL_SOCKET, SO_PEERCRED, &who, &length) != 0) return false;
  return who.uid == 0 || who.uid == ::geteuid();
}

void answer(const FileDescriptor& caller) {
  if (!may_ask(caller)) return;
  const timeval limit{1, 0};  // for who asks and does not listen
  ::setsockopt(caller.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  const std::string text = status_text();
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t count = ::send(caller.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) return;
    sent += static_cast<std::size_t>(count);
  }
}

void serve(int listener) {
  while (true) {
    pollfd entry{listener, POLLIN, 0};
    ::poll(&entry, 1, -1);
    const FileDescriptor caller(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    try {
      if (caller.valid())
        answer(caller);
      else
        ::usleep(10000);  // no descriptor is free
    } catch (const std::exception&) {
      // Out of memory: who asked gets half an answer, and may ask again.
    }
  }
}

// Once a process. A status that cannot be shown is no reason to fail.
void start_serving() {
  static std::atomic<pid_t> serving{0};
  if (serving.exchange(::getpid(), std::memory_order_relaxed) == ::getpid()) return;
  try {
    start_thread([listener = open_listener()] { serve(listener); }).detach();
  } catch (const Error& error) {
    log::info(log::Subsystem::init, "SCCL_STATUS=1 shows nothing: {}", error.what());
  }
}

}  // namespace

std::string doing_text(const SharedState& state) {
  if (state.activity.transfers.load(std::memory_order_relaxed) != 0) return "a group of Send and Recv";
  const std::uint64_t entered = state.activity.entered.load(std::memory_order_relaxed);
  if (entered == state.activity.completed.load(std::memory_order_relaxed)) return "";
  CallSignature call;
  return state.records[entered % SharedState::kRecords].read(entered, call) ? call.text() : "a call";
}

void serve_status() {
  if (env::flag("SCCL_STATUS", false)) start_serving();
}

std::string status_text() {
  json all{{"process", ::getpid()}, {"communicators", json::array()}};
  for_each_membership([&](std::size_t number, const Membership& membership) {
    all["communicators"].push_back(describe(membership, number));
  });
  return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace sccl::runtime
