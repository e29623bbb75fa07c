// Everything shown lies in the ranks' shared memory as atomics (SharedState::Activity). So any process of a
// communicator can show all ranks, without help from the threads that communicate.
#include "runtime/membership/status.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/os/thread.h"
#include "base/settings/env.h"
#include "base/settings/log.h"
#include "runtime/control/arrivals.h"
#include "runtime/membership/membership.h"
#include "runtime/membership/memberships.h"
#include "runtime/membership/message_time.h"
#include "runtime/vendor/library/vendor_library.h"

namespace sccl::runtime {
namespace {

using nlohmann::json;

json describe(const LaneWait& wait) {
  json entry{{"lane", wait.lane}, {"operation", wait.operation}, {"peer", wait.peer}};
  if (wait.slot != LaneWait::kNoSlot) entry["slot"] = wait.slot;
  return entry;
}

json describe(const ControlPlane& control, Rank rank) {
  const Calls calls = control.calls();
  const PeerHealth health = control.health();
  const Member& member = control.members().of(rank);
  std::set<Rank> awaited;
  json lanes = json::array();
  for (const LaneWait& wait : calls.waits(rank)) {
    awaited.insert(wait.peer);
    lanes.push_back(describe(wait));
  }
  json entry{{"rank", rank},
             {"process", member.process},
             {"host", member.host},
             {"state", health.has_ended(rank) ? "ended" : name_of(health.presence(rank))},
             {"call", calls.entered(rank)},
             {"doing", calls.text(rank)},
             {"waits_for", awaited},
             {"waits_seconds", awaited.empty() ? 0.0 : calls.waits_seconds(rank)},
             {"lanes", std::move(lanes)}};
  if (health.has_failed(rank)) entry["fault"] = health.fault_text(rank);
  return entry;
}

json describe(const ArrivalReport::Host& host) {
  json ranks = json::array();
  for (std::size_t i = 0; i < host.ranks.size(); ++i)
    ranks.push_back(
        {{"rank", host.ranks[i]}, {"last", host.last[i].calls}, {"behind_us", host.last[i].mean_behind_us()}});
  json entry{{"host", host.name}, {"calls", host.calls}, {"ranks", std::move(ranks)}, {"straggler", nullptr}};
  if (host.straggler >= 0) entry["straggler"] = {{"rank", host.straggler}, {"text", host.text}};
  return entry;
}

json describe_arrivals(const Membership& membership) {
  const ArrivalReport report = arrival_report(membership.control.members());
  json hosts = json::array();
  for (const ArrivalReport::Host& host : report.hosts) hosts.push_back(describe(host));
  json kinds = json::array();
  for (const ArrivalReport::Kind& one : report.kinds) {
    const SizeClass size{one.kind.size_class};
    const double one_us = message_us(membership, size.typical_bytes());
    json entry{{"collective", info(one.kind.collective).call_name},
               {"bytes", size.text()},
               {"calls", one.calls},
               {"spread_us", one.spread_us},
               {"mean_difference_us", one.mean_difference_us},
               {"message_us", one_us},
               {"mif", nullptr},
               {"aif", nullptr}};
    if (one_us > 0) {
      entry["mif"] = one.spread_us / one_us;
      entry["aif"] = one.mean_difference_us / one_us;
    }
    kinds.push_back(std::move(entry));
  }
  json all{{"hosts", std::move(hosts)}, {"kinds", std::move(kinds)}, {"straggler", nullptr}};
  if (report.straggler >= 0) all["straggler"] = {{"rank", report.straggler}, {"text", report.text}};
  return all;
}

json describe(const Membership& membership, std::size_t number) {
  json ranks = json::array();
  for (Rank rank = 0; rank < membership.ranks; ++rank) ranks.push_back(describe(membership.control, rank));
  return {{"communicator", number},           {"identity", membership.identity.text()},
          {"name", membership.identity.name}, {"rank", membership.rank},
          {"size", membership.ranks},         {"bytes", membership.layout.total_bytes()},
          {"ranks", std::move(ranks)},        {"arrivals", describe_arrivals(membership)}};
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
  const timeval limit{1, 0};  // for a client that asks and does not read
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
      // Out of memory: the client gets an incomplete answer, and may ask again.
    }
  }
}

// Takes effect once per process. If the status cannot be shown, the process goes on without it.
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

void serve_status() {
  if (env::flag("SCCL_STATUS", false)) start_serving();
}

std::string status_text() {
  const auto vendor = opened_vendor();
  json all{{"process", ::getpid()}, {"vendor", vendor ? vendor->text() : ""}, {"communicators", json::array()}};
  for_each_membership([&](std::size_t number, const Membership& membership) {
    all["communicators"].push_back(describe(membership, number));
  });
  return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace sccl::runtime
