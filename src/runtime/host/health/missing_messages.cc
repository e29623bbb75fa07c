#include "runtime/host/health/missing_messages.h"

#include <algorithm>

#include "base/error.h"

namespace sccl::runtime {
namespace {

// Longer pauses between two looks count as this: this process was stopped, and the messages may wait to be read.
constexpr std::chrono::milliseconds kMostBetweenLooks{500};

}  // namespace

void MissingMessages::check(const ControlPlane& control, const NetTransport& net, const WaitingCall& call) {
  const Members& members = control.members();
  const auto now = Clock::now();
  for (const Rank rank : call.awaited()) {
    if (members.of(rank).locality != Locality::remote) continue;
    const auto sent = members.state(rank).sent.of(members.rank);
    const std::uint64_t received = net.received(rank);
    // A stopped process sends nothing.
    if (!sent || !SentCounts::is_ahead(*sent, received) || control.health().stopped_process(rank) > 0) {
      missing_.erase(rank);
      continue;
    }
    const auto [known, is_new] = missing_.try_emplace(rank, Missing{received, {}, now});
    Missing& missing = known->second;
    if (missing.received != received) missing = {received, {}, now};
    const auto pause = std::chrono::duration_cast<std::chrono::milliseconds>(now - missing.looked);
    missing.since += std::min(pause, kMostBetweenLooks);
    missing.looked = now;
    if (missing.since < kLateMessagesHostTimeouts * members.host_timeout) continue;
    fail(ErrorCode::remote_error, "{} waits in {}, and what {} has sent does not come since {:.0f} s: {}",
         members.named({members.rank}), call.text(), members.named({rank}),
         std::chrono::duration<double>(missing.since).count(), kLostDataText);
  }
}

}  // namespace sccl::runtime
