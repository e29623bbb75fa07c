#include "runtime/control/withdrawal.h"

#include <thread>

#include "base/deadline.h"
#include "platform/host/fences.h"

namespace sccl::runtime {
namespace {

constexpr std::chrono::milliseconds kWithdrawalLimit{500};

}  // namespace

Rank Withdrawal::touch() {
  members_.own().touching.store(1, std::memory_order_relaxed);
  host::full_fence();  // pairs with await_release()
  return withdrawn();
}

void Withdrawal::release() {
  members_.own().touching.store(0, std::memory_order_release);  // pairs with await_release()
}

bool Withdrawal::has_withdrawn(Rank rank) const {
  return members_.state(rank).withdrawn.load(std::memory_order_acquire) != 0;  // pairs with withdraw()
}

Rank Withdrawal::withdrawn() const {
  for (Rank rank = 0; rank < members_.ranks(); ++rank)
    if (has_withdrawn(rank)) return rank;
  return -1;
}

std::vector<const std::atomic<std::uint32_t>*> Withdrawal::words() const {
  std::vector<const std::atomic<std::uint32_t>*> found;
  for (const Member& member : members_.all) found.push_back(&member.state->withdrawn);
  return found;
}

bool Withdrawal::withdraw() {
  members_.own().withdrawn.store(1, std::memory_order_release);
  return await_release();
}

bool Withdrawal::await_release() const {
  host::full_fence();  // pairs with touch()
  const PeerHealth health(members_);
  const Deadline limit = Deadline::in(kWithdrawalLimit);
  bool all_let_go = true;
  for (Rank rank = 0; rank < members_.ranks(); ++rank) {
    const auto touches = [&] {
      return rank != members_.rank && members_.state(rank).touching.load(std::memory_order_acquire) != 0 &&
             !health.has_ended(rank);
    };
    while (touches() && (members_.of(rank).locality == Locality::process || !limit.passed()))
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    all_let_go = all_let_go && !touches();
  }
  return all_let_go;
}

}  // namespace sccl::runtime
