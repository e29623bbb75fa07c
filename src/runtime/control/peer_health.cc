#include "runtime/control/peer_health.h"

#include <algorithm>

#include "base/error.h"

namespace sccl::runtime {
namespace {

void wake_all(const Members& members) {
  for (const Member& member : members.all) member.state->bell.wake();
  members.wake_agent();
}

// Of ranks of a child.
std::string parents_text(const Members& members, const std::vector<Rank>& ranks) {
  std::vector<Rank> there;
  for (const Rank rank : ranks) there.push_back(members.parents_ranks[static_cast<std::size_t>(rank)]);
  return fmt::format("rank {} of the parent communicator", fmt::join(there, ", "));
}

}  // namespace

std::string Members::named(const std::vector<Rank>& ranks) const {
  if (!agent_bell || ranks.empty()) return fmt::format("rank {}", fmt::join(ranks, ", "));
  std::vector<std::pair<const std::string*, std::vector<Rank>>> by_host;
  for (const Rank rank : ranks) {
    const std::string& host = of(rank).host;
    auto there = std::find_if(by_host.begin(), by_host.end(), [&](const auto& entry) { return *entry.first == host; });
    if (there == by_host.end()) there = by_host.insert(by_host.end(), {&host, {}});
    there->second.push_back(rank);
  }
  std::string text;
  for (const auto& [host, its] : by_host)
    text += fmt::format("{}rank {} on {}", text.empty() ? "" : " and ", fmt::join(its, ", "), *host);
  return text;
}

void PeerHealth::publish_fault(int code, std::string_view text) {
  members_.own().publish_fault(code, text);
  wake_all(members_);
}

void PeerHealth::leave(Presence how) {
  auto& presence = members_.own().presence;
  if (presence.load(std::memory_order_relaxed) >= static_cast<std::uint32_t>(how)) return;
  presence.store(static_cast<std::uint32_t>(how), std::memory_order_release);  // pairs with presence()
  wake_all(members_);
}

bool PeerHealth::has_failed(Rank rank) const {
  return members_.state(rank).fault.load(std::memory_order_acquire) != 0;  // pairs with SharedState::publish_fault
}

void PeerHealth::check_fault(Rank rank, const std::string& prefix) const {
  const SharedState& state = members_.state(rank);
  if (const int code = state.fault.load(std::memory_order_acquire); code != 0)  // pairs with SharedState::publish_fault
    throw Error(static_cast<ErrorCode>(code), prefix + state.fault_text.data());
}

void PeerHealth::check_all_faults() const {
  for (Rank rank = 0; rank < members_.ranks(); ++rank) check_fault(rank);
}

std::string PeerHealth::fault_text(Rank rank) const {
  return has_failed(rank) ? std::string(members_.state(rank).fault_text.data()) : std::string();
}

bool PeerHealth::has_ended(Rank rank) const {
  if (const Mirror* const mirror = members_.of(rank).mirror) return mirror->ended() != RemoteEnd::none;
  const auto& life = members_.of(rank).life;
  return life && life->look() != host::PeerLife::State::runs;
}

int PeerHealth::stopped_process(Rank rank) const {
  const Member& member = members_.of(rank);
  if (member.mirror != nullptr) return member.mirror->state.activity.stopped.load(std::memory_order_relaxed);
  return member.life ? member.life->stopped_process() : 0;
}

std::optional<std::string> PeerHealth::stopped_text() const {
  for (Rank rank = 0; rank < members_.ranks(); ++rank)
    if (const int process = stopped_process(rank); process > 0)
      return fmt::format(
          "{} does nothing, since its process is stopped by a signal or a debugger: continue it (kill "
          "-CONT {})",
          whereabouts(rank), process);
  return std::nullopt;
}

std::string PeerHealth::whereabouts(Rank rank) const {
  const Member& member = members_.of(rank);
  const std::string parents = members_.parents_ranks.empty() ? "" : parents_text(members_, {rank}) + ", ";
  return fmt::format("rank {} ({}process {} on {})", rank, parents, member.process, member.host);
}

void PeerHealth::fail_departed(Rank rank, Presence presence, const std::string& waiting_text) const {
  if (is_lost(rank)) fail_lost(rank, waiting_text);
  const auto& life = members_.of(rank).life;
  const Mirror* const mirror = members_.of(rank).mirror;
  const bool was_replaced = (life && life->look() == host::PeerLife::State::replaced) ||
                            (mirror != nullptr && mirror->ended() == RemoteEnd::replaced);
  const char* how = presence == Presence::aborted     ? "was aborted"
                    : presence == Presence::destroyed ? "destroyed its communicator"
                    : presence == Presence::revoked   ? "revoked its communicator"
                    : was_replaced                    ? "replaced its program (exec)"
                                                      : "ended";
  fail(ErrorCode::remote_error,
       "{} {} while rank {} is in {}: look at that rank's output, then abort this communicator and make a new one",
       whereabouts(rank), how, members_.rank, waiting_text);
}

bool PeerHealth::is_lost(Rank rank) const {
  const Mirror* const mirror = members_.of(rank).mirror;
  return mirror != nullptr && mirror->ended() == RemoteEnd::lost && presence(rank) < Presence::destroyed;
}

void PeerHealth::check_lost(const std::string& waiting_text) const {
  for (Rank rank = 0; rank < members_.ranks(); ++rank)
    if (is_lost(rank)) fail_lost(rank, waiting_text);
}

// The error names the host and all its ranks that had not ended before. The agent marks lost ranks one after another,
// so ranks that are not marked yet count, too.
void PeerHealth::fail_lost(Rank rank, const std::string& waiting_text) const {
  const std::string& host = members_.of(rank).host;
  std::vector<Rank> lost;
  for (Rank other = 0; other < members_.ranks(); ++other)
    if (const Mirror* const mirror = members_.of(other).mirror; mirror != nullptr && members_.of(other).host == host &&
                                                                presence(other) < Presence::destroyed &&
                                                                (mirror->ended() == RemoteEnd::none || is_lost(other)))
      lost.push_back(other);
  const std::string parents = members_.parents_ranks.empty() ? "" : fmt::format(" ({})", parents_text(members_, lost));
  fail(ErrorCode::remote_error,
       "host {} with rank {}{} was not heard of for longer than SCCL_HOST_TIMEOUT_MS while rank {} is in {}: look "
       "whether that host runs and its network is up, then abort this communicator and make a new one",
       host, fmt::join(lost, ", "), parents, members_.rank, waiting_text);
}

const char* name_of(Presence presence) {
  switch (presence) {
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

}  // namespace sccl::runtime
