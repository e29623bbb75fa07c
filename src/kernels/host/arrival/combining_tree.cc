#include "kernels/host/arrival/combining_tree.h"

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

namespace sccl::kernels {

CombiningTree::CombiningTree(CombiningTreeMemory memory, int rank, int ranks)
    : memory_(std::move(memory)), ranks_(ranks) {
  // The lower side of a node holds a power of two of ranks, the upper one what is left.
  for (int low = 0, high = ranks; high - low > 1;) {
    const int middle = low + static_cast<int>(std::bit_ceil(static_cast<unsigned>(high - low)) / 2);
    const bool is_low = rank < middle;
    way_.push_back({middle, is_low ? low : middle, is_low ? middle : low});
    (is_low ? high : low) = middle;
  }
  std::reverse(way_.begin(), way_.end());
}

void CombiningTree::begin(const ArrivalCall& call) {
  start(call);
  if (number_.size() < slices()) number_.resize(slices());
  for (std::size_t slice = 0; slice < slices(); ++slice) ++number_[slice];
  climbed_ = 0;
  std::tie(taken_, take_end_) = wanted_slices();
  scratch_.resize(std::max(scratch_.size(), bytes_of(call.slice_elements)));
}

CombiningTree::Step CombiningTree::step() {
  if (climbed_ < slices()) return climb_next();
  if (taken_ == take_end_) return Step::done;
  if (!has_result(taken_)) return Step::waits;
  take(taken_, sum_of(taken_));
  return ++taken_ == take_end_ ? Step::done : Step::moved;
}

bool CombiningTree::has_sum(std::size_t slice) const {
  return memory_.done[slice].load(std::memory_order_acquire) >= number_[slice];  // pairs with climb()
}

// Sleepers are told of results once when this rank is halfway through a long buffer, and once at the end.
CombiningTree::Step CombiningTree::climb_next() {
  constexpr std::size_t kLong = 16;                                                    // slices
  if (memory_.done[climbed_].load(std::memory_order_acquire) + 1 < number_[climbed_])  // pairs with climb()
    return Step::waits;
  climb(climbed_++);
  const bool halfway = slices() >= kLong && climbed_ == slices() / 2;
  if (ended_slices() > 0 && (climbed_ == slices() || halfway)) tell(News::kEverybody);
  return climbed_ == slices() && taken_ == take_end_ ? Step::done : Step::moved;
}

void CombiningTree::climb(std::size_t slice) {
  const std::size_t at = offset_of(slice);
  const std::size_t elements = range_of(slice).size();
  const std::byte* operand = input_of(slice);
  for (const Node& node : way_) {
    if (!meets_sibling(slice, node, operand)) return;
    const std::byte* const other = memory_.areas[static_cast<std::size_t>(node.sibling)] + at;
    const bool is_low = node.own < node.sibling;
    const bool is_root = &node == &way_.back();
    std::byte* const to = is_root ? memory_.result + at : scratch_.data();
    const Operand operands[] = {{is_low ? operand : other, 0}, {is_low ? other : operand, 0}};
    void* const destinations[] = {to};
    reduce(operands, destinations, elements, is_root ? Sum::last : Sum::partial);
    operand = to;
  }
  if (way_.empty()) copy(operand, memory_.result + at, elements);
  memory_.done[slice].store(number_[slice], std::memory_order_release);  // pairs with has_sum()
  count_end();
}

bool CombiningTree::meets_sibling(std::size_t slice, const Node& node, const std::byte*& operand) {
  std::atomic<std::uint64_t>& count = this->count(slice, node);
  const std::uint64_t one_came = 2 * number_[slice] - 1;
  // Both orders here pair with the other side's: whoever is second sees the operand that the first one left.
  if (count.load(std::memory_order_acquire) == one_came) {
    count.store(one_came + 1, std::memory_order_relaxed);  // read in the next call, which `done` orders after this one
    return true;
  }
  std::byte* const shown = memory_.areas[static_cast<std::size_t>(node.own)] + offset_of(slice);
  copy(operand, shown, range_of(slice).size());
  operand = shown;
  return count.fetch_add(1, std::memory_order_acq_rel) == one_came;
}

}  // namespace sccl::kernels
