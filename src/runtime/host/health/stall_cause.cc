#include "runtime/host/health/stall_cause.h"

#include <algorithm>

#include "runtime/membership/memberships.h"

namespace sccl::runtime {
namespace {

constexpr std::size_t kMostAbsent = 4;  // are named

// Whether rank `waiting` waits for the viewer (this process's rank), which is idle in that communicator. A rank names
// only a few awaited ranks, but a viewer that is behind in collectives keeps all other ranks waiting.
bool waits_for_viewer(const ControlPlane& control, Rank waiting) {
  const Calls calls = control.calls();
  const Rank viewer = control.members().rank;
  if (!calls.is_waiting(waiting)) return false;
  const std::vector<LaneWait> waits = calls.waits(waiting);
  const bool is_named =
      std::any_of(waits.begin(), waits.end(), [&](const LaneWait& wait) { return wait.peer == viewer; });
  return is_named || calls.entered(waiting) > calls.entered(viewer);
}

std::string cycle_text(const Membership& mine, Rank awaited, const Membership& other, Rank waiting) {
  const int process = other.control.members().of(waiting).process;
  const std::string doing = other.control.calls().text(waiting);
  return fmt::format(
      "communicators are used in opposite order: rank {} of communicator {} waits there for rank {}, whose process {} "
      "waits as rank {} of communicator {} for rank {} of this process, in {}: make the calls of both communicators in "
      "the same order on all ranks, or put them into one group",
      mine.rank, mine.identity.title(), awaited, process, waiting, other.identity.title(), other.rank, doing);
}

std::string chain_text(const Membership& mine, const std::vector<Rank>& awaited, const Membership& other,
                       Rank waiting) {
  return fmt::format(
      "communicators may be used in different orders: while rank {} of communicator {} waits there for rank {}, rank "
      "{} (process {}) of communicator {} waits for rank {} of this process, in {}: make the calls of all "
      "communicators "
      "in the same order on all ranks",
      mine.rank, mine.identity.title(), fmt::join(awaited, ", "), waiting, other.control.members().of(waiting).process,
      other.identity.title(), other.rank, other.control.calls().text(waiting));
}

// A stopped process is looked for first, because ranks that wait for it would seem to wait for one another.
std::optional<std::string> stopped_text() {
  std::optional<std::string> text;
  for_each_membership([&](std::size_t, const Membership& membership) {
    const Members& members = membership.control.members();
    for (Rank rank = 0; rank < membership.ranks && !text; ++rank) {
      const Member& member = members.of(rank);
      if (const int process = membership.control.health().stopped_process(rank); process > 0)
        text = fmt::format(
            "rank {} of communicator {} does nothing, since its process {}{} is stopped by a signal or a debugger: "
            "continue it (kill -CONT {})",
            rank, membership.identity.title(), process,
            membership.hosts.are_several() ? fmt::format(" on {}", member.host) : "", process);
    }
  });
  return text;
}

std::optional<std::string> crossing_text(const Membership& mine, const std::vector<Rank>& awaited) {
  std::optional<std::string> cycle, chain;
  for_each_membership([&](std::size_t, const Membership& other) {
    const Members& members = other.control.members();
    if (&other == &mine || cycle || !other.control.calls().is_idle(other.rank)) return;
    for (Rank rank = 0; rank < other.ranks && !cycle; ++rank) {
      if (rank == other.rank || !waits_for_viewer(other.control, rank)) continue;
      const auto counterpart = std::find_if(awaited.begin(), awaited.end(), [&](Rank one) {
        return mine.control.members().of(one).process_token == members.of(rank).process_token;
      });
      if (counterpart != awaited.end())
        cycle = cycle_text(mine, *counterpart, other, rank);
      else
        chain = chain_text(mine, awaited, other, rank);
    }
  });
  return cycle ? cycle : chain;
}

}  // namespace

std::optional<std::string> stall_cause(const Membership& mine, const std::vector<Rank>& awaited) {
  const std::optional<std::string> stopped = stopped_text();
  return stopped ? stopped : crossing_text(mine, awaited);
}

std::string absent_text(const Membership& mine, const std::vector<Rank>& awaited) {
  if (!mine.hosts.are_several()) return "";
  const Calls calls = mine.control.calls();
  std::vector<bool> seen(static_cast<std::size_t>(mine.ranks), false);
  seen[static_cast<std::size_t>(mine.rank)] = true;
  std::vector<Rank> open = awaited;
  std::vector<std::string> absent;
  while (!open.empty() && absent.size() < kMostAbsent) {
    const Rank rank = open.back();
    open.pop_back();
    if (seen[static_cast<std::size_t>(rank)]) continue;
    seen[static_cast<std::size_t>(rank)] = true;
    for (const LaneWait& wait : calls.waits(rank))
      if (wait.peer < mine.ranks) open.push_back(wait.peer);
    if (!calls.is_waiting(rank))
      absent.push_back(fmt::format("{} is in {}", mine.control.health().whereabouts(rank),
                                   calls.is_idle(rank) ? "no call" : calls.text(rank)));
  }
  return absent.empty() ? "" : fmt::format(", while {}", fmt::join(absent, ", "));
}

}  // namespace sccl::runtime
