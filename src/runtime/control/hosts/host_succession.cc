#include "runtime/control/hosts/host_succession.h"

#include <algorithm>

#include "base/settings/log.h"

namespace sccl::runtime::hosts {

bool Succession::has_left(const Candidate& one) const {
  return words_.retired(one.rank).load(std::memory_order_seq_cst) != 0 ||  // pairs with HostAgent::retire
         (one.life && one.life->look() != host::PeerLife::State::runs);
}

bool Succession::is_first() const {
  return std::all_of(all_.begin(), all_.end(), [&](const Candidate& one) { return one.rank >= own_ || has_left(one); });
}

bool Succession::is_alone() const {
  return std::all_of(all_.begin(), all_.end(), [&](const Candidate& one) { return one.rank == own_ || has_left(one); });
}

// Higher ranks, too, may go on for one that is stopped: whoever looks first.
bool Succession::is_due(Rank seen) const {
  if (seen < 0) return is_first();
  if (seen == own_) return false;
  const auto last = std::find_if(all_.begin(), all_.end(), [&](const Candidate& one) { return one.rank == seen; });
  if (last != all_.end() && has_left(*last) && is_first()) return true;
  const std::uint64_t beat = words_.beat().load(std::memory_order_relaxed);
  const std::uint64_t now = monotonic_us();
  return beat != 0 && std::chrono::microseconds(now > beat ? now - beat : 0) > longest_silence_;
}

bool Succession::try_to_lead() {
  Rank seen = words_.leader().load(std::memory_order_relaxed);
  // Of several that are due, one.
  if (leads_ || !is_due(seen) || !words_.leader().compare_exchange_strong(seen, own_, std::memory_order_relaxed))
    return false;
  if (seen >= 0) log::info(log::Subsystem::net, "agent of rank {}: goes on in the place of rank {}'s", own_, seen);
  lead();
  return true;
}

void Succession::lead() {
  words_.leader().store(own_, std::memory_order_relaxed);
  leads_ = true;
  has_doubts();
}

void Succession::step_down() {
  leads_ = false;
  words_.doubts().fetch_add(1, std::memory_order_release);  // pairs with has_doubts()
  log::info(log::Subsystem::net, "agent of rank {}: another one has taken its place", own_);
}

bool Succession::has_doubts() {
  const std::uint32_t doubts = words_.doubts().load(std::memory_order_acquire);  // pairs with step_down()
  return std::exchange(doubts_, doubts) != doubts;
}

}  // namespace sccl::runtime::hosts
