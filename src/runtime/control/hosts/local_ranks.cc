#include "runtime/control/hosts/local_ranks.h"

namespace sccl::runtime::hosts {
namespace {

constexpr std::chrono::milliseconds kStoppedPeriod{200};

}  // namespace

void LocalRanks::add(Rank rank, SharedState& state, std::shared_ptr<const host::PeerLife> life) {
  all_.push_back({rank, &state, std::move(life), StateChanges(rank, state)});
}

void LocalRanks::collect_changes(Bytes& to) {
  for (One& one : all_) one.changes.collect(to);
}

void LocalRanks::collect_all(Bytes& to) const {
  for (const One& one : all_) {
    StateChanges(one.rank, *one.state).collect(to);
    if (one.end != RemoteEnd::none) append_end(one.rank, one.end, to);
  }
}

void LocalRanks::collect_ends(Bytes& to) {
  for (One& one : all_) {
    if (!one.life || one.end != RemoteEnd::none) continue;
    const auto state = one.life->look();
    if (state == host::PeerLife::State::runs) continue;
    one.end = state == host::PeerLife::State::replaced ? RemoteEnd::replaced : RemoteEnd::ended;
    one.changes.collect(to);
    append_end(one.rank, one.end, to);
  }
}

bool LocalRanks::may_look_for_stopped(Clock::time_point now) {
  if (now < next_look_) return false;
  next_look_ = now + kStoppedPeriod;
  return true;
}

void LocalRanks::note_stopped() {
  for (const One& one : all_)
    if (one.life && one.end == RemoteEnd::none)
      one.state->activity.stopped.store(one.life->stopped_process(), std::memory_order_relaxed);
}

void LocalRanks::add_poll_entries(std::vector<pollfd>& entries) const {
  for (const One& one : all_) {
    if (!one.life || one.end != RemoteEnd::none) continue;
    for (const int descriptor : one.life->descriptors()) entries.push_back({descriptor, POLLIN, 0});
  }
}

void LocalRanks::add_poll_entries_below(Rank rank, std::vector<pollfd>& entries) const {
  for (const One& one : all_) {
    if (one.rank >= rank || !one.life || one.life->look() != host::PeerLife::State::runs) continue;
    for (const int descriptor : one.life->descriptors()) entries.push_back({descriptor, POLLIN, 0});
  }
}

void LocalRanks::ring() const {
  for (const One& one : all_) one.state->bell.ring();
}

}  // namespace sccl::runtime::hosts
