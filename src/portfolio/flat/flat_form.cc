#include "portfolio/flat/flat_form.h"

#include <atomic>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/settings/log.h"
#include "compose/lowering/by_time.h"
#include "compose/lowering/expand.h"

namespace sccl::portfolio {

std::size_t memory_bytes(const schedule::Schedule& schedule) {
  return sizeof schedule + schedule.sends.size() * sizeof(schedule::Send) +
         schedule.topology.links.size() * sizeof(topology::Link);
}

std::size_t memory_bytes(const compose::Order& order) {
  return (order.copies.size() + order.sums.size()) * sizeof(compose::Step);
}

compose::Verified ordered_if_proved(const compose::Verified& known,
                                    const std::shared_ptr<const compose::Order>& order) {
  try {
    return {known, order};
  } catch (const Error& error) {
    log::warn("{}: it runs in the order of its frames: please report this", error.what());
    return known;
  }
}

struct FlatForm::State {
  std::mutex making;
  std::atomic<bool> made{false};
  Steps steps = Steps::of_frames;
  std::optional<compose::Verified> composite;
  std::shared_ptr<const compose::Order> order;  // by time, if there is one
  std::optional<compose::Verified> ordered;     // if it is proved; made when first asked for
  schedule::Schedule schedule;
};

FlatForm::FlatForm(schedule::Schedule schedule) : state_(std::make_shared<State>()) {
  state_->schedule = std::move(schedule);
  state_->made.store(true, std::memory_order_relaxed);  // no other thread knows the state yet
}

FlatForm::FlatForm(compose::Verified composite, Steps steps) : state_(std::make_shared<State>()) {
  state_->steps = steps;
  state_->composite = std::move(composite);
}

// A lock instead of std::call_once(): an exception that passes through the C library's part of that ends the process
// where the library brings its own unwinder along.
void FlatForm::make() const {
  if (!state_->composite || state_->made.load(std::memory_order_acquire)) return;  // pairs with the store below
  const std::lock_guard lock(state_->making);
  if (state_->made.load(std::memory_order_relaxed)) return;  // stored under the lock
  if (has_order(state_->steps)) {
    compose::Ordered made = compose::order_by_time(
        **state_->composite, state_->steps == Steps::by_time ? compose::kChunkOfLane : compose::kChunkOfSlice);
    state_->order = std::move(made.order);
    state_->schedule = std::move(made.flat);
  } else {
    state_->schedule = compose::expand(**state_->composite);
  }
  state_->made.store(true, std::memory_order_release);  // pairs with make() and bytes()
}

const schedule::Schedule& FlatForm::operator*() const {
  make();
  return state_->schedule;
}

std::optional<compose::Verified> FlatForm::composite() const {
  if (state_->steps == Steps::of_frames) return state_->composite;
  make();
  if (state_->order == nullptr) return state_->composite;
  // Few orders are chosen, and a proof takes as long as a simulation.
  const std::lock_guard lock(state_->making);
  if (!state_->ordered) state_->ordered.emplace(ordered_if_proved(*state_->composite, state_->order));
  return state_->ordered;
}

Steps FlatForm::steps() const { return state_->steps; }

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
  const bool made = state_->made.load(std::memory_order_acquire);  // pairs with make()
  if (!made) return sizeof(State);
  return sizeof(State) + memory_bytes(state_->schedule) + (state_->order ? memory_bytes(*state_->order) : 0);
}

}  // namespace sccl::portfolio
