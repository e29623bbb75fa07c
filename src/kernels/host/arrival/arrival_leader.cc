#include "kernels/host/arrival/arrival_leader.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace sccl::kernels {

ArrivalLeader::ArrivalLeader(ArrivalLeaderMemory memory, int rank, int ranks)
    : memory_(std::move(memory)),
      rank_(rank),
      ranks_(ranks),
      there_(static_cast<std::size_t>(ranks)),
      merged_(static_cast<std::size_t>(ranks)) {}

void ArrivalLeader::begin(const ArrivalCall& call) {
  start(call);
  ++number_;
  place_ = -1;
  shown_ = 0;
  std::tie(taken_, take_end_) = wanted_slices();
}

ArrivalLeader::Step ArrivalLeader::step() {
  if (place_ < 0) return bind();
  if (place_ == 0 && ended_slices() < slices()) return lead();
  if (place_ > 0 && shown_ < slices()) return show_next();
  return take_next();
}

ArrivalLeader::Step ArrivalLeader::bind() {
  if (memory_.ended->load(std::memory_order_acquire) + 1 < number_) return Step::waits;  // pairs with end_slice()
  const auto ranks = static_cast<std::uint64_t>(ranks_);
  // Relaxed: what a rank must see comes by the words named in the header.
  place_ = static_cast<int>(memory_.arrivals->fetch_add(1, std::memory_order_relaxed) - (number_ - 1) * ranks);
  if (place_ > 0) return Step::moved;
  memory_.leader->store(ranks * number_ + static_cast<std::uint64_t>(rank_), std::memory_order_relaxed);
  std::fill(there_.begin(), there_.end(), 0);
  std::fill(merged_.begin(), merged_.end(), 0);
  holds_.assign(slices(), 0);
  return Step::moved;
}

// Merges the lowest slice of which any operand is there.
ArrivalLeader::Step ArrivalLeader::lead() {
  look();
  std::size_t slice = slices();
  for (std::size_t rank = 0; rank < there_.size(); ++rank)
    if (merged_[rank] < there_[rank]) slice = std::min(slice, merged_[rank]);
  if (slice == slices()) return Step::waits;
  merge(slice);
  return ended_slices() == slices() && taken_ == take_end_ ? Step::done : Step::moved;
}

void ArrivalLeader::look() {
  for (int rank = 0; rank < ranks_; ++rank) {
    const std::uint64_t all = ready(rank).load(std::memory_order_acquire);  // pairs with show_next()
    there_[static_cast<std::size_t>(rank)] =
        all > earlier_slices() && rank != rank_ ? static_cast<std::size_t>(all - earlier_slices()) : 0;
  }
}

void ArrivalLeader::merge(std::size_t slice) {
  std::byte* const sum = memory_.areas[static_cast<std::size_t>(rank_)] + offset_of(slice);
  const bool begins = holds_[slice] == 0;
  operands_.assign(1, {begins ? input_of(slice) : sum, 0});
  for (std::size_t rank = 0; rank < there_.size(); ++rank)
    if (merged_[rank] == slice && slice < there_[rank]) {
      operands_.push_back({memory_.areas[rank] + offset_of(slice), 0});
      ++merged_[rank];
    }
  holds_[slice] += static_cast<int>(operands_.size()) - (begins ? 0 : 1);
  const bool is_last = holds_[slice] == ranks_;
  void* const to[] = {is_last ? memory_.result + offset_of(slice) : sum};
  reduce(operands_, to, range_of(slice).size(), is_last ? Sum::last : Sum::partial);
  count_additions(operands_.size() - 1);
  if (is_last) end_slice(slice);
}

void ArrivalLeader::end_slice(std::size_t slice) {
  memory_.done[slice].store(number_, std::memory_order_release);  // pairs with has_sum()
  count_end();
  if (ended_slices() < slices()) return;
  memory_.ended->store(number_, std::memory_order_release);  // pairs with bind()
  tell(News::kEverybody);
}

ArrivalLeader::Step ArrivalLeader::show_next() {
  copy(input_of(shown_), memory_.areas[static_cast<std::size_t>(rank_)] + offset_of(shown_), range_of(shown_).size());
  ++shown_;
  ready(rank_).store(earlier_slices() + shown_, std::memory_order_release);  // pairs with look()
  if (shown_ == 1 || shown_ == slices()) tell_leader();
  return shown_ == slices() && taken_ == take_end_ ? Step::done : Step::moved;
}

// A leader whose name is not there yet has not looked for data yet: it finds them before it sleeps.
void ArrivalLeader::tell_leader() {
  const auto ranks = static_cast<std::uint64_t>(ranks_);
  const std::uint64_t leader = memory_.leader->load(std::memory_order_relaxed);
  if (leader / ranks == number_) tell(static_cast<int>(leader % ranks));
}

bool ArrivalLeader::has_sum(std::size_t slice) const {
  return memory_.done[slice].load(std::memory_order_acquire) >= number_;  // pairs with end_slice()
}

ArrivalLeader::Step ArrivalLeader::take_next() {
  if (taken_ == take_end_) return Step::done;
  if (!has_result(taken_)) return Step::waits;
  take(taken_, sum_of(taken_));
  return ++taken_ == take_end_ ? Step::done : Step::moved;
}

}  // namespace sccl::kernels
