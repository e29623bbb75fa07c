#include "portfolio/flat/ordered_share.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "compose/lowering/by_time.h"
#include "portfolio/flat/flat_form.h"

namespace sccl::portfolio {
namespace {

// Of calls whose chunks are on their way for about as long as links are busy with them; the order serves all calls.
constexpr double kLongData = 64 << 20;
constexpr double kLeastChunk = 4096;
double chunk_bytes(const schedule::HostShare& share) {
  return std::clamp(kLongData / share.schedule.chunks, kLeastChunk, compose::kChunkOfLane);
}

}  // namespace

struct OrderedShare::State {
  State(compose::Verified one, std::shared_ptr<const compose::HostShares> of)
      : composite(std::move(one)), shares(std::move(of)) {}

  std::mutex making;
  bool made = false;
  compose::Verified composite;
  std::shared_ptr<const compose::HostShares> shares;
  std::optional<schedule::HostShare> share;
  std::shared_ptr<const compose::Order> order;
  std::optional<compose::Verified> ordered;
};

OrderedShare::OrderedShare(compose::Verified composite, std::shared_ptr<const compose::HostShares> shares)
    : state_(std::make_shared<State>(std::move(composite), std::move(shares))) {}

// Under the lock.
void OrderedShare::make() const {
  if (state_->made) return;
  state_->share = state_->shares->of(*state_->composite);
  if (state_->share)
    state_->order = compose::order_by_time(*state_->composite, *state_->share, chunk_bytes(*state_->share));
  state_->made = true;
}

const schedule::HostShare* OrderedShare::share() const {
  const std::lock_guard lock(state_->making);
  make();
  return state_->share ? &*state_->share : nullptr;
}

compose::Verified OrderedShare::composite() const {
  const std::lock_guard lock(state_->making);
  make();
  if (!state_->order) return state_->composite;
  if (!state_->ordered) state_->ordered.emplace(ordered_if_proved(state_->composite, state_->order));
  return *state_->ordered;
}

std::size_t OrderedShare::bytes() const {
  const std::lock_guard lock(state_->making);
  std::size_t bytes = sizeof(State);
  if (state_->share)
    bytes += memory_bytes(state_->share->schedule) + state_->share->beyond.size() * sizeof(schedule::HostShare::Beyond);
  if (state_->order) bytes += memory_bytes(*state_->order);
  return bytes;
}

}  // namespace sccl::portfolio
