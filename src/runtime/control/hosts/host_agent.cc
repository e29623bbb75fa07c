#include "runtime/control/hosts/host_agent.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/os/thread.h"
#include "base/settings/log.h"
#include "platform/host/fences.h"

namespace sccl::runtime {
namespace {

using hosts::FrameKind;

constexpr std::chrono::milliseconds kBusyPeriod{5};
constexpr std::chrono::milliseconds kIdlePeriod{20};
constexpr std::chrono::milliseconds kBusyFor{100};
constexpr std::chrono::milliseconds kDialPause{20};
constexpr std::chrono::milliseconds kLastWordsLimit{300};
constexpr std::chrono::seconds kIntroductionLimit{5};
constexpr std::size_t kMostIntroductions = 256;
constexpr std::size_t kMostCandidates = 64;
// A host that does not read gets one snapshot later instead of all changes.
constexpr std::size_t kMostBacklog = std::size_t{1} << 20;

}  // namespace

FileDescriptor HostAgent::make_wake() {
  FileDescriptor made(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!made.valid()) fail_errno(errno, "opening an event descriptor", "raise the limit on open files (ulimit -n)");
  return made;
}

namespace {

hosts::Succession succession_of(const AgentSetup& setup) {
  std::vector<hosts::Succession::Candidate> all;
  for (std::size_t rank = 0; rank < setup.members.size(); ++rank)
    if (setup.members[rank].host == setup.own.host) all.push_back({static_cast<Rank>(rank), setup.members[rank].life});
  return {setup.own.rank, std::move(all), setup.bell.mirrors, setup.timeout / 4};
}

}  // namespace

HostAgent::HostAgent(AgentSetup setup) : setup_(std::move(setup)), succession_(succession_of(setup_)) {
  for (std::size_t number = 0; number < setup_.host_names.size(); ++number)
    hosts_.emplace_back(setup_.own, static_cast<int>(number));
  for (Rank rank = 0; rank < static_cast<int>(setup_.members.size()); ++rank) {
    const AgentSetup::Member& member = setup_.members[static_cast<std::size_t>(rank)];
    hosts_[static_cast<std::size_t>(member.host)].ranks.push_back(rank);
    if (member.host != setup_.own.host) continue;
    local_.push_back(rank);
    changes_.emplace_back(rank, *member.state);
  }
  local_ends_.assign(local_.size(), RemoteEnd::none);
  thread_ = start_thread([this] { run(); });
}

HostAgent::~HostAgent() {
  stopping_.store(true, std::memory_order_release);  // pairs with run()
  setup_.bell.ring(setup_.own.rank);
  thread_.join();
}

void HostAgent::run() {
  try {
    while (!stopping_.load(std::memory_order_acquire)) {  // pairs with the destructor
      if (succession_.try_to_lead()) take_over();
      if (!succession_.leads()) {
        sleep_until_due();
        continue;
      }
      wait();
      // Another agent takes this one's place when this process was stopped.
      if (succession_.was_replaced())
        step_down();
      else
        turn();
    }
    retire();
  } catch (const std::exception& error) {
    // The other hosts miss this one, and tell their ranks.
    log::info(log::Subsystem::net, "agent of rank {}: ended: {}", setup_.own.rank, error.what());
    mirrors().retired(setup_.own.rank).store(1, std::memory_order_release);
  }
}

void HostAgent::step_down() {
  for (Host& host : hosts_) {
    host.out.close();
    host.in.reset();
    host.needs_snapshot = true;
  }
  introductions_.clear();
  succession_.step_down();
  setup_.bell.ring();
}

void HostAgent::sleep_until_due() const {
  std::vector<pollfd> entries{{wake_descriptor(), POLLIN, 0}};
  for (const Rank rank : local_) {
    const auto& life = setup_.members[static_cast<std::size_t>(rank)].life;
    if (rank >= setup_.own.rank || !life || life->look() != host::PeerLife::State::runs) continue;
    for (const int descriptor : life->descriptors()) entries.push_back({descriptor, POLLIN, 0});
  }
  ::poll(entries.data(), entries.size(), static_cast<int>(std::min<std::int64_t>(setup_.timeout.count() / 16, 1000)));
  drain_wake();
}

void HostAgent::drain_wake() const {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(wake_descriptor(), &count, sizeof count);
}

void HostAgent::take_over() {
  for (Host& host : hosts_) {
    host.heard = host.next_dial = Clock::now();
    // What a predecessor knew of a host lies in its mirrors.
    const auto is_gone = [&](Rank rank) {
      const Mirror& mirror = mirrors().mirror(rank);
      return mirror.ended() != RemoteEnd::none ||
             mirror.state.presence.load(std::memory_order_acquire) >= static_cast<std::uint32_t>(Presence::destroyed);
    };
    host.left = std::all_of(host.ranks.begin(), host.ranks.end(), is_gone);
    host.lost = std::any_of(host.ranks.begin(), host.ranks.end(),
                            [&](Rank rank) { return mirrors().mirror(rank).ended() == RemoteEnd::lost; });
  }
  hosts_[static_cast<std::size_t>(setup_.own.host)].left = true;  // not another one
}

std::chrono::milliseconds HostAgent::heartbeat() const {
  return std::clamp(setup_.timeout / 8, std::chrono::milliseconds(20), std::chrono::milliseconds(500));
}

void HostAgent::wait() {
  std::vector<pollfd> entries{{wake_descriptor(), POLLIN, 0}};
  for (const host::UnforkedDescriptor& listener : setup_.listeners) entries.push_back({listener.get(), POLLIN, 0});
  for (const hosts::InLink& link : introductions_) entries.push_back({link.descriptor(), POLLIN, 0});
  for (const Host& host : hosts_) {
    if (host.in) entries.push_back({host.in->descriptor(), POLLIN, 0});
    host.out.add_poll_entries(entries);
  }
  for (std::size_t i = 0; i < local_.size(); ++i) {
    const auto& life = setup_.members[static_cast<std::size_t>(local_[i])].life;
    if (!life || local_ends_[i] != RemoteEnd::none) continue;
    for (const int descriptor : life->descriptors()) entries.push_back({descriptor, POLLIN, 0});
  }
  const auto period = Clock::now() - last_change_ < kBusyFor ? kBusyPeriod : kIdlePeriod;
  ::poll(entries.data(), entries.size(), static_cast<int>(period.count()));
}

void HostAgent::turn() {
  // A process that is stopped in the middle of a turn has not missed the others, either.
  const auto began = Clock::now();
  drain_wake();
  if (links_complete_ || setup_.own.rank != local_.front()) succession_.beat();
  // A host whose connection ends makes a new one and sends all values on it.
  if (succession_.has_doubts())
    for (Host& host : hosts_) host.in.reset();
  accept_all();
  take_introductions();
  for (std::size_t number = 0; number < hosts_.size(); ++number) {
    if (static_cast<int>(number) == setup_.own.host) continue;
    take_frames(hosts_[number]);
    drive(hosts_[number], static_cast<int>(number));
  }
  look_at_processes();
  send_changes();
  // After everything that has come was taken: a host that was stopped itself has not missed the others.
  for (std::size_t number = 0; number < hosts_.size(); ++number)
    if (static_cast<int>(number) != setup_.own.host) check_silence(hosts_[number], static_cast<int>(number), began);
  report_links();
}

void HostAgent::accept_all() {
  for (const host::UnforkedDescriptor& listener : setup_.listeners)
    while (true) {
      Address address;
      address.length = sizeof address.storage;
      host::UnforkedDescriptor socket(
          FileDescriptor(::accept4(listener.get(), reinterpret_cast<sockaddr*>(&address.storage), &address.length,
                                   SOCK_NONBLOCK | SOCK_CLOEXEC)));
      if (!socket.valid()) break;
      if (introductions_.size() >= kMostIntroductions) introductions_.pop_front();
      introductions_.emplace_back(std::move(socket), address.text());
    }
}

void HostAgent::take_introductions() {
  const auto may_come = [&](const hosts::Hello& hello) {
    const auto ranks = static_cast<std::int32_t>(setup_.members.size());
    if (hello.rank < 0 || hello.rank >= ranks || hello.from == setup_.own.host) return false;
    return setup_.members[static_cast<std::size_t>(hello.rank)].host == hello.from;  // the last that came counts
  };
  for (auto link = introductions_.begin(); link != introductions_.end();) {
    const auto on_frame = [&](FrameKind kind, std::span<const std::byte> payload) {
      return take_frame(link->hello().from, kind, payload);
    };
    link->turn(setup_.own, may_come, on_frame);
    if (link->is_stranger() && Clock::now() - link->since() > kIntroductionLimit)
      link->drop("it did not introduce itself in time");
    if (link->is_broken() || !link->is_stranger()) {
      if (!link->is_stranger()) {
        Host& host = hosts_[static_cast<std::size_t>(link->hello().from)];
        host.heard = Clock::now();
        host.was_heard = true;
        // Another one speaks for that host now, also where the process of the former one keeps its connection open.
        if (host.out.state() == hosts::OutLink::State::open && host.out.good_rank() != link->hello().rank) {
          host.out.close();
          host.next_dial = Clock::now();
        }
        host.in.reset();
        if (!link->is_broken()) host.in.emplace(std::move(*link));
      }
      link = introductions_.erase(link);
    } else {
      ++link;
    }
  }
}

void HostAgent::take_frames(Host& host) {
  if (!host.in) return;
  const int number = host.in->hello().from;
  host.in->turn(
      setup_.own, [](const hosts::Hello&) { return true; },
      [&](FrameKind kind, std::span<const std::byte> payload) { return take_frame(number, kind, payload); });
  host.heard = std::max(host.heard, host.in->heard());
  if (host.in->is_broken()) {
    host.in.reset();
    host.next_dial = Clock::now();
  }
}

bool HostAgent::take_frame(int number, FrameKind kind, std::span<const std::byte> payload) {
  Host& host = hosts_[static_cast<std::size_t>(number)];
  if (host.lost) return true;  // for good: its ranks were told to be
  if (kind == FrameKind::farewell) host.left = true;
  if (kind != FrameKind::changes) return kind == FrameKind::farewell || kind == FrameKind::handover;
  bool urgent = false;
  const auto mirror_of = [&](Rank rank) {
    const bool is_its = rank >= 0 && rank < static_cast<Rank>(setup_.members.size()) &&
                        setup_.members[static_cast<std::size_t>(rank)].host == number;
    return is_its ? &mirrors().mirror(rank) : nullptr;
  };
  const bool understood = apply_changes(payload, mirror_of, urgent);
  if (urgent) tell_news();
  return understood;
}

void HostAgent::drive(Host& host, int number) {
  const bool was_open = host.out.state() == hosts::OutLink::State::open;
  host.out.turn();
  const bool is_open = host.out.state() == hosts::OutLink::State::open;
  if (is_open && !was_open) {
    host.was_reached = host.needs_snapshot = true;
    log::info(log::Subsystem::net, "agent of rank {}: reaches host {}", setup_.own.rank,
              setup_.host_names[static_cast<std::size_t>(number)]);
  }
  note_refusals(host);
  if (was_open && !is_open) host.next_dial = Clock::now();
  if (host.out.state() == hosts::OutLink::State::closed && !host.left && !host.lost && Clock::now() >= host.next_dial) {
    host.next_dial = Clock::now() + kDialPause;
    dial(host);
  }
  if (is_open && host.needs_snapshot && host.out.backlog() == 0) send_snapshot(host);
}

// While a communicator is made the lowest rank's agent is a host's; later it may be that of any rank that is there.
void HostAgent::dial(Host& host) {
  std::vector<hosts::OutLink::Candidate> candidates;
  for (const Rank rank : host.ranks) {
    if (mirrors().mirror(rank).ended() != RemoteEnd::none) continue;
    const auto& addresses = setup_.members[static_cast<std::size_t>(rank)].addresses;
    for (std::size_t i = 0; i < addresses.size() && candidates.size() < kMostCandidates; ++i)
      candidates.push_back({rank, i, addresses[i]});
    if (!host.was_reached && setup_.own.rank == local_.front()) break;
  }
  if (!candidates.empty()) host.out.dial(candidates, std::min(setup_.timeout, std::chrono::milliseconds(3000)));
}

// Nobody listens where an agent was reached before, and its host is silent: the process has ended.
void HostAgent::note_refusals(Host& host) {
  const auto refusals = host.out.take_refusals();
  if (host.in || !host.was_reached) return;
  for (const auto& refusal : refusals)
    if (refusal.index == host.out.good_index()) mark_ended(refusal.rank, RemoteEnd::ended);
}

void HostAgent::mark_ended(Rank rank, RemoteEnd end) {
  Mirror& mirror = mirrors().mirror(rank);
  if (mirror.ended() != RemoteEnd::none) return;
  mirror.end.store(static_cast<std::uint32_t>(end), std::memory_order_release);  // pairs with Mirror::ended
  tell_news();
  Host& host = hosts_[static_cast<std::size_t>(setup_.members[static_cast<std::size_t>(rank)].host)];
  host.left = host.left || std::all_of(host.ranks.begin(), host.ranks.end(),
                                       [&](Rank other) { return mirrors().mirror(other).ended() != RemoteEnd::none; });
}

void HostAgent::look_at_processes() {
  Bytes ends;
  for (std::size_t i = 0; i < local_.size(); ++i) {
    const auto& life = setup_.members[static_cast<std::size_t>(local_[i])].life;
    if (!life || local_ends_[i] != RemoteEnd::none) continue;
    const auto state = life->look();
    if (state == host::PeerLife::State::runs) continue;
    local_ends_[i] = state == host::PeerLife::State::replaced ? RemoteEnd::replaced : RemoteEnd::ended;
    changes_[i].collect(ends);  // its last values
    append_end(local_[i], local_ends_[i], ends);
  }
  if (ends.empty()) return;
  for (Host& host : hosts_)
    if (!host.needs_snapshot) host.out.send(FrameKind::changes, ends);
  tell_news();
}

void HostAgent::send_changes() {
  Bytes changes;
  for (StateChanges& one : changes_) one.collect(changes);
  const auto now = Clock::now();
  if (!changes.empty()) last_change_ = now;
  for (Host& host : hosts_) {
    if (host.out.state() != hosts::OutLink::State::open || host.needs_snapshot) continue;
    if (host.out.backlog() > kMostBacklog) {
      host.needs_snapshot = true;
      continue;
    }
    if (changes.empty() && now - host.sent < heartbeat()) continue;
    host.out.send(FrameKind::changes, changes);
    host.sent = now;
  }
}

void HostAgent::send_snapshot(Host& host) {
  Bytes all;
  for (std::size_t i = 0; i < local_.size(); ++i) {
    StateChanges(local_[i], *setup_.members[static_cast<std::size_t>(local_[i])].state).collect(all);
    if (local_ends_[i] != RemoteEnd::none) append_end(local_[i], local_ends_[i], all);
  }
  host.out.send(FrameKind::changes, all);
  host.sent = Clock::now();
  host.needs_snapshot = false;
}

void HostAgent::check_silence(Host& host, int number, Clock::time_point turn_began) {
  if (host.left || host.lost || turn_began - host.heard < setup_.timeout) return;
  if (!host.was_heard && setup_.own.rank == local_.front()) return;  // await_links tells
  host.lost = true;
  log::info(log::Subsystem::net, "agent of rank {}: host {} was not heard of for {} ms: its ranks are lost",
            setup_.own.rank, setup_.host_names[static_cast<std::size_t>(number)], setup_.timeout.count());
  for (const Rank rank : host.ranks) mark_ended(rank, RemoteEnd::lost);
}

void HostAgent::tell_news() const {
  mirrors().news().fetch_add(1, std::memory_order_release);  // pairs with NewsWatch
  host::full_fence();
  for (const Rank rank : local_) setup_.members[static_cast<std::size_t>(rank)].state->bell.ring();
}

void HostAgent::report_links() {
  if (links_complete_) return;  // written by this thread alone
  std::string text;
  bool complete = true;
  for (std::size_t number = 0; number < hosts_.size(); ++number) {
    const Host& host = hosts_[number];
    if (static_cast<int>(number) == setup_.own.host || (host.was_reached && host.was_heard)) continue;
    complete = false;
    const std::string& own = setup_.host_names[static_cast<std::size_t>(setup_.own.host)];
    const std::string pair =
        host.was_reached ? fmt::format("host {} (rank {}) has not been reached by host {} (rank {})", own,
                                       setup_.own.rank, setup_.host_names[number], host.ranks.front())
                         : fmt::format("host {} (rank {}) cannot reach host {} (rank {}) at {}", own, setup_.own.rank,
                                       setup_.host_names[number], host.ranks.front(), host.out.outcome_text());
    text += (text.empty() ? "" : "; ") + pair;
  }
  const std::lock_guard lock(mutex_);
  for (const Host& host : hosts_)
    if (complete && host.was_reached) own_addresses_.push_back(host.out.own_address());
  links_complete_ = complete;
  links_text_ = text;
  if (complete) links_changed_.notify_all();
}

std::string HostAgent::await_links(Deadline deadline, const std::atomic<bool>& abort) {
  if (setup_.own.rank != local_.front()) return "";
  std::unique_lock lock(mutex_);
  while (!links_complete_ && !deadline.passed() && !abort.load(std::memory_order_acquire))  // pairs with abort()
    links_changed_.wait_for(lock, std::chrono::milliseconds(20));
  return links_complete_ ? "" : links_text_;
}

std::vector<Address> HostAgent::own_addresses() {
  const std::lock_guard lock(mutex_);
  return own_addresses_;
}

// The store before the looks: of two ranks that retire at a time, one at least sees the other's and speaks for both.
void HostAgent::retire() {
  mirrors().retired(setup_.own.rank).store(1, std::memory_order_seq_cst);  // pairs with Succession::has_left
  if (succession_.was_replaced()) step_down();
  const auto limit = Clock::now() + kLastWordsLimit;
  // It may have just taken over, and have reached nobody yet.
  if ((succession_.leads() || succession_.is_first()) && succession_.is_alone()) {
    if (!succession_.leads()) {
      succession_.lead();
      take_over();
    }
    const auto is_missing = [](const Host& host) {
      return !host.left && !host.lost && (host.out.state() != hosts::OutLink::State::open || host.needs_snapshot);
    };
    while (std::any_of(hosts_.begin(), hosts_.end(), is_missing) && Clock::now() < limit) {
      wait();
      turn();
    }
  }
  if (succession_.leads()) {
    look_at_processes();
    send_changes();
    const FrameKind last = succession_.is_alone() ? FrameKind::farewell : FrameKind::handover;
    for (Host& host : hosts_) {
      host.out.send(last, {});
    }
    const auto has_backlog = [](const Host& host) { return host.out.backlog() > 0; };
    while (std::any_of(hosts_.begin(), hosts_.end(), has_backlog) && Clock::now() < limit) {
      for (Host& host : hosts_) host.out.turn();
      ::poll(nullptr, 0, 1);
    }
  }
  for (const Rank rank : local_)
    if (rank > setup_.own.rank) setup_.bell.ring(rank);
}

}  // namespace sccl::runtime
