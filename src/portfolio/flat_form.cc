#include "portfolio/flat_form.h"

#include <atomic>
#include <mutex>
#include <optional>

#include "compose/expand.h"

namespace sccl::portfolio {

std::size_t memory_bytes(const schedule::Schedule& schedule) {
  return sizeof schedule + schedule.sends.size() * sizeof(schedule::Send) +
         schedule.topology.links.size() * sizeof(topology::Link);
}

struct FlatForm::State {
  std::once_flag once;
  std::atomic<bool> made{false};
  std::optional<compose::Verified> composite;
  schedule::Schedule schedule;
};

FlatForm::FlatForm(schedule::Schedule schedule) : state_(std::make_shared<State>()) {
  state_->schedule = std::move(schedule);
  state_->made.store(true, std::memory_order_relaxed);  // no other thread knows the state yet
}

FlatForm::FlatForm(compose::Verified composite) : state_(std::make_shared<State>()) {
  state_->composite = std::move(composite);
}

const schedule::Schedule& FlatForm::operator*() const {
  if (state_->composite)
    std::call_once(state_->once, [&] {
      state_->schedule = compose::expand(**state_->composite);
      state_->made.store(true, std::memory_order_release);  // pairs with bytes()
    });
  return state_->schedule;
}

int FlatForm::chunks() const {
  if (!state_->composite) return state_->schedule.chunks;
  const compose::Composite& composite = **state_->composite;
  return schedule::chunk_count(composite.collective, composite.ranks(), composite.chunks_per_rank);
}

int FlatForm::chunks_per_rank() const {
  return state_->composite ? (*state_->composite)->chunks_per_rank : state_->schedule.chunks_per_rank;
}

std::size_t FlatForm::sends() const {
  return state_->composite ? compose::about_sends(**state_->composite) : state_->schedule.sends.size();
}

std::size_t FlatForm::bytes() const {
  const bool made = state_->made.load(std::memory_order_acquire);  // pairs with operator*
  return sizeof(State) + (made ? memory_bytes(state_->schedule) : 0);
}

}  // namespace sccl::portfolio
