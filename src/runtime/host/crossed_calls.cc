#include "runtime/host/crossed_calls.h"

#include <algorithm>

#include "runtime/control/memberships.h"
#include "runtime/control/status.h"

namespace sccl::runtime {
namespace {

// Neither in a call nor in a group of transfers there.
bool is_idle(const Activity& activity) {
  return activity.entered.load(std::memory_order_relaxed) == activity.completed.load(std::memory_order_relaxed) &&
         activity.transfers.load(std::memory_order_relaxed) == 0;
}

// Whether `peer` waits for `own`, which is idle in that communicator. Activity names a few awaited ranks only, but a
// rank that is behind in collectives keeps all others waiting.
bool waits_for(const Activity& peer, const Activity& own, Rank rank) {
  if (peer.waits_since_us.load(std::memory_order_relaxed) == 0) return false;
  const bool is_named = std::any_of(peer.waits_for.begin(), peer.waits_for.end(), [rank](const auto& awaited) {
    return awaited.load(std::memory_order_relaxed) == rank;
  });
  return is_named || peer.entered.load(std::memory_order_relaxed) > own.entered.load(std::memory_order_relaxed);
}

std::string cycle_text(const Membership& mine, Rank awaited, const Membership& other, Rank waiting) {
  const Peer& peer = other.peers[static_cast<std::size_t>(waiting)];
  const std::string doing = doing_text(*peer.state);
  return fmt::format(
      "communicators are used in opposite order: rank {} of communicator {} waits there for rank {}, whose process {} "
      "waits as rank {} of communicator {} for rank {} of this process, in {}: make the calls of both communicators in "
      "the same order on all ranks, or put them into one group",
      mine.rank, mine.title(), awaited, peer.process, waiting, other.title(), other.rank, doing);
}

std::string chain_text(const Membership& mine, const std::vector<Rank>& awaited, const Membership& other,
                       Rank waiting) {
  const Peer& peer = other.peers[static_cast<std::size_t>(waiting)];
  return fmt::format(
      "communicators may be used in different orders: while rank {} of communicator {} waits there for rank {}, rank "
      "{} (process {}) of communicator {} waits for rank {} of this process, in {}: make the calls of all "
      "communicators "
      "in the same order on all ranks",
      mine.rank, mine.title(), fmt::join(awaited, ", "), waiting, peer.process, other.title(), other.rank,
      doing_text(*peer.state));
}

}  // namespace

std::optional<std::string> crossing_text(const Membership& mine, const std::vector<Rank>& awaited) {
  std::optional<std::string> cycle, chain;
  for_each_membership([&](std::size_t, const Membership& other) {
    const Activity& own = other.peers[static_cast<std::size_t>(other.rank)].state->activity;
    if (&other == &mine || cycle || !is_idle(own)) return;
    for (Rank rank = 0; rank < other.ranks && !cycle; ++rank) {
      const Peer& peer = other.peers[static_cast<std::size_t>(rank)];
      if (rank == other.rank || !waits_for(peer.state->activity, own, other.rank)) continue;
      const auto counterpart = std::find_if(awaited.begin(), awaited.end(), [&](Rank one) {
        return mine.peers[static_cast<std::size_t>(one)].process_token == peer.process_token;
      });
      if (counterpart != awaited.end())
        cycle = cycle_text(mine, *counterpart, other, rank);
      else
        chain = chain_text(mine, awaited, other, rank);
    }
  });
  return cycle ? cycle : chain;
}

}  // namespace sccl::runtime
