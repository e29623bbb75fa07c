#include "kernels/host/arrival/slot_reduction.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace sccl::kernels {
namespace {

constexpr std::uint64_t kAwaited = 1;
constexpr int kPassedShift = 1;

// A rank that has met others at so many slices waits for one of them before it tries more.
constexpr std::size_t kMostMet = 8;
// With all ranks in the call, a rank goes so many slices ahead of the result that it takes next: 1 MiB. Of 64 MiB, 128
// slices take 1.2 times as long.
constexpr std::size_t kMostLead = 32;
// Sleepers are told of so many results at a time.
constexpr std::uint64_t kResultsOfNews = 4;

}  // namespace

SlotReduction::SlotReduction(ArrivalSlots slots, int rank, int ranks)
    : slots_(std::move(slots)),
      rank_(static_cast<std::size_t>(rank)),
      ranks_(static_cast<std::size_t>(ranks)),
      uses_(slots_.count),
      start_(slots_.count / 2) {}

void SlotReduction::begin(const ArrivalCall& call) {
  // Of the call before.
  for (std::size_t slice = 0; slice < std::min(slots_.count, slices()); ++slice) {
    const std::size_t rounds = (slices() - slice + slots_.count - 1) / slots_.count;
    Use& use = uses_[slot_of(slice)];
    use.count += rounds;
    use.end = earlier_slices() + slice + (rounds - 1) * slots_.count + 1;
  }
  start(call);
  start_ = start_ == 0 ? slots_.count / 2 : 0;
  next_ = 0;
  met_.clear();
  std::tie(taken_, take_end_) = wanted_slices();
  is_stored_.assign(slices(), false);
  told_ = 0;
  has_all_here_ = false;
}

SlotReduction::Step SlotReduction::step() {
  // Results first, while caches hold them.
  const bool moves = take_next() || contribute_next();
  while (taken_ < take_end_ && is_stored_[taken_]) end_take();
  pass();
  if (!moves) return wait_or_end();
  if (!has_contributed()) return Step::moved;
  tell_of_results();
  return taken_ == take_end_ ? Step::done : Step::moved;
}

bool SlotReduction::contribute_next() {
  for (auto slice = met_.begin(); slice != met_.end(); ++slice)
    if (contribute(*slice) == Try::contributed) {
      met_.erase(slice);
      return true;
    }
  if (!may_try_next()) return false;
  if (contribute(next_) == Try::met_other) met_.push_back(next_);
  ++next_;
  return true;
}

bool SlotReduction::may_try_next() { return wants_to_try_next() && is_free(next_); }

bool SlotReduction::wants_to_try_next() const {
  if (next_ == slices() || met_.size() == kMostMet) return false;
  const bool waits_for_results = has_all_here_ && taken_ < take_end_ && !is_over_hosts();
  return !waits_for_results || next_ < taken_ + kMostLead;
}

// So many slices of all calls must have been passed by all ranks.
std::uint64_t SlotReduction::free_from(std::size_t slice) const {
  return slice < slots_.count ? uses_[slot_of(slice)].end : earlier_slices() + slice - slots_.count + 1;
}

bool SlotReduction::is_free(std::size_t slice) {
  const std::uint64_t needed = free_from(slice);
  if (all_passed_ >= needed) return true;
  all_passed_ = passed_;
  for (std::size_t rank = 0; rank < ranks_; ++rank)  // acquire: pairs with pass()
    all_passed_ = std::min(all_passed_, passed(rank).load(std::memory_order_acquire) >> kPassedShift);
  return all_passed_ >= needed;
}

void SlotReduction::pass() {
  std::size_t end = met_.empty() ? next_ : std::min(next_, *std::min_element(met_.begin(), met_.end()));
  if (taken_ < take_end_) end = std::min(end, taken_);
  end = std::min(end, published_end());
  const std::uint64_t all = earlier_slices() + end;
  if (all <= passed_) return;
  passed_ = all;
  // Release: pairs with is_free(). A rank that waits has said so in the word, or finds this number.
  const std::uint64_t old = passed(rank_).exchange(all << kPassedShift, std::memory_order_release);
  if ((old & kAwaited) != 0) tell(News::kEverybody);
}

bool SlotReduction::take_next() {
  // A contribution that is missing may be this rank's own.
  if (taken_ == take_end_ || !has_result(taken_)) return false;
  take(taken_, sum_of(taken_));
  end_take();
  return true;
}

void SlotReduction::end_take() {
  ++taken_;
  // All ranks are in this call, so they have ended the calls before.
  has_all_here_ = true;
  all_passed_ = std::max(all_passed_, earlier_slices());
}

SlotReduction::Step SlotReduction::wait_or_end() {
  tell_of_results();
  if (has_contributed() && taken_ == take_end_) return Step::done;
  for (const std::size_t slice : met_)
    if (!waits_for(slice)) return Step::moved;
  return wants_to_try_next() && !waits_for_slot(next_) ? Step::moved : Step::waits;
}

// Asks one of the ranks that have not passed the slot to wake this rank. Where this rank alone has not, it waits for a
// result. False if all have passed it.
bool SlotReduction::waits_for_slot(std::size_t slice) const {
  const std::uint64_t needed = free_from(slice);
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    if (rank == rank_) continue;
    std::uint64_t word = passed(rank).load(std::memory_order_relaxed);
    while (word >> kPassedShift < needed)
      if ((word & kAwaited) != 0 || passed(rank).compare_exchange_weak(word, word | kAwaited, std::memory_order_relaxed,
                                                                       std::memory_order_relaxed))
        return true;
  }
  return passed_ < needed;
}

SlotReduction::Places SlotReduction::places_of_sum(std::size_t slice) const {
  // Over hosts the sum of the ranks is no result yet.
  std::byte* const output = is_over_hosts() ? nullptr : output_of(slice);
  Places places;
  if (output == nullptr || call().wanted.readers == ArrivalCall::Readers::all) places.add(sum_of(slice));
  if (output != nullptr) places.add(output);
  return places;
}

void SlotReduction::end_slice(std::size_t slice) {
  is_stored_[slice] = !is_over_hosts() && output_of(slice) != nullptr;
  count_end();
  if (ended_slices() >= told_ + kResultsOfNews) tell_of_results();
}

void SlotReduction::tell_of_results() {
  if (ended_slices() == told_) return;
  told_ = ended_slices();
  tell(News::kEverybody);
}

}  // namespace sccl::kernels
