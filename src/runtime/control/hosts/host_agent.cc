#include "runtime/control/hosts/host_agent.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "base/bytes.h"
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
constexpr std::size_t kMostCandidates = 64;
// If a host reads too slowly, changes are dropped, and one snapshot is sent later.
constexpr std::size_t kMostBacklog = std::size_t{1} << 20;

hosts::Succession succession_of(const AgentSetup& setup) {
  std::vector<hosts::Succession::Candidate> all;
  for (std::size_t rank = 0; rank < setup.members.size(); ++rank)
    if (setup.members[rank].host == setup.own.host) all.push_back({static_cast<Rank>(rank), setup.members[rank].life});
  return {setup.own.rank, std::move(all), setup.bell.mirrors, setup.timeout / 4};
}

// How often a host is told that this one is there, where nothing else is to be told.
std::chrono::milliseconds heartbeat(std::chrono::milliseconds timeout) {
  return std::clamp(timeout / 8, std::chrono::milliseconds(20), std::chrono::milliseconds(500));
}

Bytes with_head(int origin, std::uint64_t version, const Bytes& changes) {
  Bytes payload;
  const hosts::ChangesHead head{origin, 0, version};
  wire::append(payload, wire::bytes_of(head));
  wire::append(payload, changes);
  return payload;
}

// Pairs with the store by which the news of it came (state_changes.cc).
bool has_left(const Mirror& mirror) {
  return mirror.state.presence.load(std::memory_order_acquire) >= static_cast<std::uint32_t>(Presence::destroyed);
}

bool have_all_gone(const MirrorTable& mirrors, const std::vector<Rank>& ranks) {
  return std::all_of(ranks.begin(), ranks.end(), [&](Rank rank) {
    const Mirror& mirror = mirrors.mirror(rank);
    return mirror.ended() != RemoteEnd::none || has_left(mirror);
  });
}

bool is_lost(const MirrorTable& mirrors, const std::vector<Rank>& ranks) {
  return std::any_of(ranks.begin(), ranks.end(),
                     [&](Rank rank) { return mirrors.mirror(rank).ended() == RemoteEnd::lost; });
}

void sleep_until_due(const AgentSetup& setup, const hosts::LocalRanks& local) {
  std::vector<pollfd> entries{{setup.bell.descriptor(setup.own.rank), POLLIN, 0}};
  local.add_poll_entries_below(setup.own.rank, entries);
  ::poll(entries.data(), entries.size(), static_cast<int>(std::min<std::int64_t>(setup.timeout.count() / 16, 1000)));
  setup.bell.drain(setup.own.rank);
}

// Something has happened that ends calls.
void tell_news(const AgentSetup& setup, const hosts::LocalRanks& local) {
  setup.bell.mirrors.news().fetch_add(1, std::memory_order_release);  // pairs with NewsWatch
  host::full_fence();
  local.ring();
}

bool somebody_waits(const AgentSetup& setup) {
  for (std::size_t rank = 0; rank < setup.members.size(); ++rank) {
    const SharedState* const own = setup.members[rank].state;
    const SharedState& state = own != nullptr ? *own : setup.bell.mirrors.mirror(static_cast<Rank>(rank)).state;
    if (state.activity.waits_since_us.load(std::memory_order_relaxed) != 0) return true;
    if (state.activity.waits_outside.load(std::memory_order_relaxed) != 0) return true;
  }
  return false;
}

}  // namespace

HostAgent::HostAgent(AgentSetup setup)
    : setup_(std::move(setup)),
      succession_(succession_of(setup_)),
      grid_(static_cast<int>(setup_.host_names.size()), setup_.fanout) {
  for (std::size_t number = 0; number < setup_.host_names.size(); ++number)
    hosts_.emplace_back(setup_.own, static_cast<int>(number));
  for (Rank rank = 0; rank < static_cast<int>(setup_.members.size()); ++rank) {
    const AgentSetup::Member& member = setup_.members[static_cast<std::size_t>(rank)];
    hosts_[static_cast<std::size_t>(member.host)].ranks.push_back(rank);
    if (member.host != setup_.own.host) continue;
    local_.add(rank, *member.state, member.life);
  }
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
        sleep_until_due(setup_, local_);
        continue;
      }
      wait();
      // While this process was stopped, another agent may have taken over.
      if (succession_.was_replaced())
        step_down();
      else
        turn();
    }
    retire();
  } catch (const std::exception& error) {
    // The other hosts miss this one, and tell their ranks.
    log::info(log::Subsystem::net, "agent of rank {}: ended: {}", setup_.own.rank, error.what());
    setup_.bell.mirrors.retired(setup_.own.rank).store(1, std::memory_order_release);
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

void HostAgent::take_over() {
  version_ = (std::uint64_t{setup_.bell.mirrors.term().fetch_add(1, std::memory_order_relaxed)} + 1) << 40;
  for (Host& host : hosts_) {
    host.heard = host.next_dial = Clock::now();
    // The mirrors hold what the predecessor knew.
    host.left = have_all_gone(setup_.bell.mirrors, host.ranks);
    host.lost = is_lost(setup_.bell.mirrors, host.ranks);
  }
  hosts_[static_cast<std::size_t>(setup_.own.host)].left = true;  // not another one
  look_for_adjacent();
}

// Where both hosts between this one and another one have gone, the two speak to each other directly.
void HostAgent::look_for_adjacent() {
  const auto has_gone = [&](int between) {
    if (between < 0) return true;
    const Host& host = hosts_[static_cast<std::size_t>(between)];
    return host.left || host.lost;
  };
  for (int number = 0; number < static_cast<int>(hosts_.size()); ++number) {
    Host& host = hosts_[static_cast<std::size_t>(number)];
    if (number == setup_.own.host || host.is_adjacent) continue;
    const auto between = grid_.between(setup_.own.host, number);
    if (!grid_.are_adjacent(setup_.own.host, number) && !(has_gone(between[0]) && has_gone(between[1]))) continue;
    host.is_adjacent = true;
    host.heard = host.next_dial = Clock::now();
    host.left = host.left || have_all_gone(setup_.bell.mirrors, host.ranks);
  }
}

void HostAgent::wait() {
  std::vector<pollfd> entries{{setup_.bell.descriptor(setup_.own.rank), POLLIN, 0}};
  for (const host::UnforkedDescriptor& listener : setup_.listeners) entries.push_back({listener.get(), POLLIN, 0});
  introductions_.add_poll_entries(entries);
  for (const Host& host : hosts_) {
    if (host.in) entries.push_back({host.in->descriptor(), POLLIN, 0});
    host.out.add_poll_entries(entries);
  }
  local_.add_poll_entries(entries);
  const auto period = Clock::now() - last_change_ < kBusyFor ? kBusyPeriod : kIdlePeriod;
  ::poll(entries.data(), entries.size(), static_cast<int>(period.count()));
}

void HostAgent::turn() {
  // Silence is judged by the time at which the turn began: this process may have been stopped during the turn.
  const auto began = Clock::now();
  setup_.bell.drain(setup_.own.rank);
  if (links_.is_complete() || !local_.is_lowest(setup_.own.rank)) succession_.beat();
  // Closing a connection makes the other host dial again and send all values.
  if (succession_.has_doubts())
    for (Host& host : hosts_) {
      host.in.reset();
      setup_.bell.mirrors.version(host.ranks.front()).store(0, std::memory_order_release);  // pairs with take_changes()
    }
  look_for_adjacent();
  introductions_.accept_all(setup_.listeners);
  take_introductions();
  for (std::size_t number = 0; number < hosts_.size(); ++number) {
    if (static_cast<int>(number) == setup_.own.host) continue;
    take_frames(hosts_[number]);
    drive(hosts_[number], static_cast<int>(number));
  }
  look_at_processes();
  send_changes();
  // Only after all received data was taken: if this host was stopped, the other hosts were not silent.
  for (std::size_t number = 0; number < hosts_.size(); ++number)
    if (static_cast<int>(number) != setup_.own.host) check_silence(hosts_[number], static_cast<int>(number), began);
  report_links();
}

void HostAgent::take_introductions() {
  const auto may_come = [&](const hosts::Hello& hello) {
    const auto ranks = static_cast<std::int32_t>(setup_.members.size());
    if (hello.rank < 0 || hello.rank >= ranks || hello.from == setup_.own.host) return false;
    return setup_.members[static_cast<std::size_t>(hello.rank)].host == hello.from;  // the last that came counts
  };
  introductions_.turn(
      setup_.own, may_come,
      [&](int from, FrameKind kind, std::span<const std::byte> payload) { return take_frame(from, kind, payload); },
      [&](hosts::InLink&& link) { take_link(std::move(link)); });
}

void HostAgent::take_link(hosts::InLink&& link) {
  Host& host = hosts_[static_cast<std::size_t>(link.hello().from)];
  host.heard = Clock::now();
  host.was_heard = true;
  // A different agent speaks for that host now, even if the former agent's process keeps its connection open.
  if (host.out.state() == hosts::OutLink::State::open && host.out.good_rank() != link.hello().rank) {
    host.out.close();
    host.next_dial = Clock::now();
  }
  host.in.reset();
  if (!link.is_broken()) host.in.emplace(std::move(link));
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
  if (kind == FrameKind::changes) return payload.empty() || take_changes(number, payload);
  if (kind != FrameKind::verdicts) return kind == FrameKind::farewell || kind == FrameKind::handover;
  bool urgent = false;
  const auto mirror_of = [&](Rank rank) -> Mirror* {
    if (rank < 0 || rank >= static_cast<Rank>(setup_.members.size())) return nullptr;
    const int of = setup_.members[static_cast<std::size_t>(rank)].host;
    return grid_.are_adjacent(of, setup_.own.host) ? nullptr : &setup_.bell.mirrors.mirror(rank);
  };
  const bool understood = apply_changes(payload, mirror_of, urgent);
  for (Host& other : hosts_) other.lost = other.lost || is_lost(setup_.bell.mirrors, other.ranks);
  tell_news(setup_, local_);
  return understood;
}

bool HostAgent::take_changes(int sender, std::span<const std::byte> payload) {
  const std::span<const std::byte> whole = payload;
  hosts::ChangesHead head;
  if (!take_value(payload, head) || head.origin < 0 || head.origin >= static_cast<int>(hosts_.size()) ||
      head.origin == setup_.own.host)
    return false;
  const int origin = head.origin;
  const std::vector<Rank>& ranks = hosts_[static_cast<std::size_t>(origin)].ranks;
  std::atomic<std::uint64_t>& known = setup_.bell.mirrors.version(ranks.front());
  // What is not newer came on another way.
  if (hosts_[static_cast<std::size_t>(origin)].lost || head.version <= known.load(std::memory_order_acquire))
    return true;
  bool urgent = false;
  const auto mirror_of = [&](Rank rank) {
    const bool is_its = rank >= 0 && rank < static_cast<Rank>(setup_.members.size()) &&
                        setup_.members[static_cast<std::size_t>(rank)].host == origin;
    return is_its ? &setup_.bell.mirrors.mirror(rank) : nullptr;
  };
  if (!apply_changes(payload, mirror_of, urgent)) return false;
  known.store(head.version, std::memory_order_release);  // pairs with the load above, of a successor
  if (urgent) tell_news(setup_, local_);
  if (sender != origin) return true;
  for (std::size_t number = 0; number < hosts_.size(); ++number) {
    Host& behind = hosts_[number];
    if (behind.out.state() != hosts::OutLink::State::open || behind.needs_snapshot ||
        grid_.are_adjacent(origin, static_cast<int>(number)))
      continue;
    behind.needs_snapshot = behind.out.backlog() > kMostBacklog;
    if (!behind.needs_snapshot) behind.out.send(FrameKind::changes, whole);
  }
  return true;
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
  if (host.out.state() == hosts::OutLink::State::closed && host.is_adjacent && !host.left && !host.lost &&
      Clock::now() >= host.next_dial) {
    host.next_dial = Clock::now() + kDialPause;
    dial(host);
  }
  if (is_open && host.needs_snapshot && host.out.backlog() == 0) send_snapshot(host);
}

// During init the agent of a host's lowest rank works; later any of its ranks' agents may.
void HostAgent::dial(Host& host) {
  std::vector<hosts::OutLink::Candidate> candidates;
  for (const Rank rank : host.ranks) {
    if (setup_.bell.mirrors.mirror(rank).ended() != RemoteEnd::none) continue;
    const auto& addresses = setup_.members[static_cast<std::size_t>(rank)].addresses;
    for (std::size_t i = 0; i < addresses.size() && candidates.size() < kMostCandidates; ++i)
      candidates.push_back({rank, i, addresses[i]});
    if (!host.was_reached && local_.is_lowest(setup_.own.rank)) break;
  }
  if (!candidates.empty()) host.out.dial(candidates, std::min(setup_.timeout, std::chrono::milliseconds(3000)));
}

// An agent was reached at this address before, now nobody listens there, and the host has no connection to this one:
// the agent's process has ended; unless its rank has said that it leaves, which may have come since it was dialled.
void HostAgent::note_refusals(Host& host) {
  const auto refusals = host.out.take_refusals();
  if (host.in || !host.was_reached) return;
  for (const auto& refusal : refusals)
    if (refusal.index == host.out.good_index() && !has_left(setup_.bell.mirrors.mirror(refusal.rank)))
      mark_ended(refusal.rank, RemoteEnd::ended);
}

void HostAgent::mark_ended(Rank rank, RemoteEnd end) {
  Mirror& mirror = setup_.bell.mirrors.mirror(rank);
  if (mirror.ended() != RemoteEnd::none) return;
  mirror.end.store(static_cast<std::uint32_t>(end), std::memory_order_release);  // pairs with Mirror::ended
  tell_news(setup_, local_);
  const int number = setup_.members[static_cast<std::size_t>(rank)].host;
  Host& host = hosts_[static_cast<std::size_t>(number)];
  host.left = host.left || std::all_of(host.ranks.begin(), host.ranks.end(), [&](Rank other) {
                return setup_.bell.mirrors.mirror(other).ended() != RemoteEnd::none;
              });
  Bytes verdict;
  append_end(rank, end, verdict);
  for (std::size_t other = 0; other < hosts_.size(); ++other)
    if (!grid_.are_adjacent(number, static_cast<int>(other)) && !hosts_[other].needs_snapshot)
      hosts_[other].out.send(FrameKind::verdicts, verdict);
}

void HostAgent::look_at_processes() {
  if (local_.may_look_for_stopped(Clock::now()) && somebody_waits(setup_)) local_.note_stopped();
  Bytes ends;
  local_.collect_ends(ends);
  if (ends.empty()) return;
  const Bytes payload = with_head(setup_.own.host, ++version_, ends);
  for (Host& host : hosts_)
    if (!host.needs_snapshot) host.out.send(FrameKind::changes, payload);
  tell_news(setup_, local_);
}

void HostAgent::send_changes() {
  Bytes changes;
  local_.collect_changes(changes);
  const auto now = Clock::now();
  if (!changes.empty()) {
    last_change_ = now;
    changes = with_head(setup_.own.host, ++version_, changes);
  }
  for (Host& host : hosts_) {
    if (host.out.state() != hosts::OutLink::State::open || host.needs_snapshot) continue;
    if (host.out.backlog() > kMostBacklog) {
      host.needs_snapshot = true;
      continue;
    }
    if (changes.empty() && now - host.sent < heartbeat(setup_.timeout)) continue;
    host.out.send(FrameKind::changes, changes);
    host.sent = now;
  }
}

// Of this host and, if the other one is connected to few hosts, of those between which this one stands.
void HostAgent::send_snapshot(Host& host) {
  Bytes all;
  local_.collect_all(all);
  host.out.send(FrameKind::changes, with_head(setup_.own.host, version_, all));
  const int to = static_cast<int>(&host - hosts_.data());
  Bytes verdicts;
  for (int number = 0; number < static_cast<int>(hosts_.size()); ++number) {
    const std::vector<Rank>& ranks = hosts_[static_cast<std::size_t>(number)].ranks;
    const std::uint64_t version = setup_.bell.mirrors.version(ranks.front()).load(std::memory_order_acquire);
    if (number == setup_.own.host || grid_.are_adjacent(number, to)) continue;
    all.clear();
    for (const Rank rank : ranks) {
      const Mirror& mirror = setup_.bell.mirrors.mirror(rank);
      StateChanges(rank, mirror.state).collect(all);
      if (const RemoteEnd end = mirror.ended(); end != RemoteEnd::none) append_end(rank, end, verdicts);
    }
    if (version != 0 && grid_.are_adjacent(number, setup_.own.host))
      host.out.send(FrameKind::changes, with_head(number, version, all));
  }
  if (!verdicts.empty()) host.out.send(FrameKind::verdicts, verdicts);
  host.sent = Clock::now();
  host.needs_snapshot = false;
}

void HostAgent::check_silence(Host& host, int number, Clock::time_point turn_began) {
  if (!host.is_adjacent || host.left || host.lost || turn_began - host.heard < setup_.timeout) return;
  if (!host.was_heard && local_.is_lowest(setup_.own.rank) && !links_.is_complete()) return;  // await_links tells
  host.lost = true;
  log::info(log::Subsystem::net, "agent of rank {}: host {} was not heard of for {} ms: its ranks are lost",
            setup_.own.rank, setup_.host_names[static_cast<std::size_t>(number)], setup_.timeout.count());
  for (const Rank rank : host.ranks) mark_ended(rank, RemoteEnd::lost);
}

void HostAgent::report_links() {
  if (links_.is_complete()) return;
  std::string text;
  for (std::size_t number = 0; number < hosts_.size(); ++number) {
    const Host& host = hosts_[number];
    if (!host.is_adjacent || (host.was_reached && host.was_heard)) continue;
    const std::string& own = setup_.host_names[static_cast<std::size_t>(setup_.own.host)];
    const std::string pair =
        host.was_reached ? fmt::format("host {} (rank {}) has not been reached by host {} (rank {})", own,
                                       setup_.own.rank, setup_.host_names[number], host.ranks.front())
                         : fmt::format("host {} (rank {}) cannot reach host {} (rank {}) at {}", own, setup_.own.rank,
                                       setup_.host_names[number], host.ranks.front(), host.out.outcome_text());
    text += (text.empty() ? "" : "; ") + pair;
  }
  std::vector<Address> own;
  // A host may send by one interface and receive by another one.
  for (const Host& host : hosts_) {
    if (host.was_reached) own.push_back(host.out.own_address());
    if (host.in) own.push_back(host.in->own_address());
  }
  links_.tell(std::move(text), std::move(own));
}

std::string HostAgent::await_links(Deadline deadline, const std::atomic<bool>& abort,
                                   const std::function<void()>& check) {
  return local_.is_lowest(setup_.own.rank) ? links_.await(deadline, abort, check) : "";
}

// The store comes before the loads: if two ranks retire at the same time, at least one sees the other's store, and
// tells the other hosts for both.
void HostAgent::retire() {
  setup_.bell.mirrors.retired(setup_.own.rank).store(1, std::memory_order_seq_cst);  // pairs with Succession::has_left
  if (succession_.was_replaced()) step_down();
  const auto limit = Clock::now() + kLastWordsLimit;
  // This agent may have taken over only now, and may not have reached any host yet.
  if ((succession_.leads() || succession_.is_first()) && succession_.is_alone()) {
    if (!succession_.leads()) {
      succession_.lead();
      take_over();
    }
    const auto is_missing = [](const Host& host) {
      return host.is_adjacent && !host.left && !host.lost &&
             (host.out.state() != hosts::OutLink::State::open || host.needs_snapshot);
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
  local_.each([&](Rank rank) {
    if (rank > setup_.own.rank) setup_.bell.ring(rank);
  });
}

}  // namespace sccl::runtime
