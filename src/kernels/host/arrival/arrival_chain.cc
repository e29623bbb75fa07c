#include "kernels/host/arrival/arrival_chain.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace sccl::kernels {
namespace {

constexpr std::uint64_t kAtWork = 1;
constexpr std::uint64_t kAwaited = 2;
constexpr int kCountShift = 2;

// A rank that has met others at so many slices waits for one of them before it tries more.
constexpr std::size_t kMostMet = 8;
// Sleepers are told of so many results at a time.
constexpr std::uint64_t kResultsOfNews = 4;

}  // namespace

ArrivalChain::ArrivalChain(ArrivalChainMemory memory, int ranks)
    : memory_(std::move(memory)), ranks_(static_cast<std::uint64_t>(ranks)), uses_(slots()) {}

void ArrivalChain::begin(const ArrivalCall& call) {
  // Of the call before.
  for (std::size_t slot = 0; slot < std::min(slots(), slices()); ++slot)
    uses_[slot] += (slices() - slot + slots() - 1) / slots();
  start(call);
  next_ = 0;
  met_.clear();
  std::tie(taken_, take_end_) = wanted_slices();
  stored_.assign(slices(), false);
  led_slices_ = told_ = 0;
}

std::byte* ArrivalChain::sum_of(std::size_t slice) const {
  const std::vector<std::byte*>& areas = memory_.areas[use_of(slice) % 2];
  const std::size_t slot = slice % slots();
  return areas[slot / memory_.slots_of_area] + slot % memory_.slots_of_area * memory_.slot_bytes;
}

bool ArrivalChain::has_sum(std::size_t slice) const {
  const std::uint64_t word = word_of(slice).load(std::memory_order_acquire);  // pairs with contribute()
  return word >> kCountShift >= before(slice) + ranks_;
}

ArrivalChain::Step ArrivalChain::step() {
  if (!contribute_next() && !take_next()) return wait_or_end();
  if (!has_contributed()) return Step::moved;
  tell_of_results();
  return taken_ == take_end_ ? Step::done : Step::moved;
}

bool ArrivalChain::contribute_next() {
  for (auto slice = met_.begin(); slice != met_.end(); ++slice)
    if (contribute(*slice) == Try::contributed) {
      met_.erase(slice);
      return true;
    }
  if (!may_try_next()) return false;
  const Try result = contribute(next_);
  if (result == Try::too_early) return false;
  if (result == Try::met_other) met_.push_back(next_);
  ++next_;
  return true;
}

bool ArrivalChain::may_try_next() const {
  if (next_ == slices() || met_.size() == kMostMet) return false;
  if (next_ < slots()) return true;
  // What this rank wants of the slot's last result must have been taken.
  const std::size_t last_use = next_ - slots();
  return has_published(last_use) && (last_use < taken_ || last_use >= take_end_);
}

ArrivalChain::Try ArrivalChain::contribute(std::size_t slice) {
  std::atomic<std::uint64_t>& shared = word_of(slice);
  std::uint64_t word = shared.load(std::memory_order_relaxed);
  const std::uint64_t count = word >> kCountShift;
  if (count < before(slice)) return Try::too_early;
  if ((word & kAtWork) != 0) return Try::met_other;
  // Acquire: pairs with the last contribution's release below.
  if (!shared.compare_exchange_strong(word, word | kAtWork, std::memory_order_acquire, std::memory_order_relaxed))
    return Try::met_other;
  add(slice, count - before(slice));
  // Pairs with the acquire above and with has_sum().
  const std::uint64_t old = shared.exchange((count + 1) << kCountShift, std::memory_order_release);
  if ((old & kAwaited) != 0) tell(News::kEverybody);
  if (ended_slices() >= told_ + kResultsOfNews) tell_of_results();
  return Try::contributed;
}

// `place`: the contributions that the sum holds.
void ArrivalChain::add(std::size_t slice, std::uint64_t place) {
  std::byte* const sum = sum_of(slice);
  const std::byte* const own = input_of(slice);
  const std::size_t elements = range_of(slice).size();
  if (place == 0) {
    ++led_slices_;
    return copy(own, sum, elements);
  }
  const bool is_last = place + 1 == ranks_;
  // Over hosts the last sum is no result yet.
  std::byte* const output = is_last && !is_over_hosts() ? output_of(slice) : nullptr;
  const bool only_here = output != nullptr && call().wanted.readers == ArrivalCall::Readers::only_this;
  const Operand operands[] = {{sum, 0}, {own, 0}};
  void* const destinations[] = {only_here ? output : sum, output};
  const std::size_t places = output != nullptr && !only_here ? 2 : 1;
  reduce(operands, std::span(destinations, places), elements, is_last ? Sum::last : Sum::partial);
  if (!is_last) return;
  stored_[slice] = output != nullptr;
  count_end();
}

bool ArrivalChain::take_next() {
  if (taken_ == take_end_) return false;
  if (!stored_[taken_]) {
    // A contribution that is missing may be this rank's own.
    if (!has_result(taken_)) return false;
    take(taken_, sum_of(taken_));
  }
  ++taken_;
  return true;
}

ArrivalChain::Step ArrivalChain::wait_or_end() {
  tell_of_results();
  if (has_contributed() && taken_ == take_end_) return Step::done;
  for (const std::size_t slice : met_)
    if (!waits_for(slice)) return Step::moved;
  return may_try_next() && !waits_for(next_) ? Step::moved : Step::waits;
}

// Asks to be woken by the rank that is at work. All others who wait wait for results, of which they are told.
bool ArrivalChain::waits_for(std::size_t slice) const {
  std::atomic<std::uint64_t>& shared = word_of(slice);
  std::uint64_t word = shared.load(std::memory_order_relaxed);
  if ((word & kAtWork) == 0) return word >> kCountShift < before(slice);
  return (word & kAwaited) != 0 ||
         shared.compare_exchange_strong(word, word | kAwaited, std::memory_order_relaxed, std::memory_order_relaxed);
}

void ArrivalChain::tell_of_results() {
  if (ended_slices() == told_) return;
  told_ = ended_slices();
  tell(News::kEverybody);
}

}  // namespace sccl::kernels
