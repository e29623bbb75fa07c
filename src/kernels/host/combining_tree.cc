#include "kernels/host/combining_tree.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/types.h"

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

void CombiningTree::begin(const CombiningTreeCall& call) {
  call_ = call;
  element_bytes_ = size_bytes(call.type);
  slices_ = (call.elements + call.slice_elements - 1) / call.slice_elements;
  if (number_.size() < slices_) number_.resize(slices_);
  for (std::size_t slice = 0; slice < slices_; ++slice) ++number_[slice];
  climbed_ = 0;
  const CombiningTreeCall::Wanted& wanted = call.wanted;
  taken_ = wanted.begin / call.slice_elements;
  take_end_ = wanted.begin == wanted.end ? taken_ : (wanted.end + call.slice_elements - 1) / call.slice_elements;
  evaluated_ = ended_slices_ = 0;
  scratch_.resize(std::max(scratch_.size(), call.slice_elements * element_bytes_));
}

std::size_t CombiningTree::elements_of(std::size_t slice) const {
  return std::min(call_.slice_elements, call_.elements - slice * call_.slice_elements);
}

CombiningTree::Step CombiningTree::step() {
  if (climbed_ < slices_) {
    if (memory_.done[climbed_].load(std::memory_order_acquire) + 1 < number_[climbed_])  // pairs with climb()
      return Step::waits;
    climb(climbed_++);
    return climbed_ == slices_ && taken_ == take_end_ ? Step::done : Step::moved;
  }
  if (taken_ == take_end_) return Step::done;
  if (memory_.done[taken_].load(std::memory_order_acquire) < number_[taken_]) return Step::waits;  // pairs with climb()
  take(taken_);
  return ++taken_ == take_end_ ? Step::done : Step::moved;
}

void CombiningTree::take(std::size_t slice) const {
  const CombiningTreeCall::Wanted& wanted = call_.wanted;
  const std::size_t first = slice * call_.slice_elements;
  const std::size_t begin = std::max(first, wanted.begin);
  const std::size_t end = std::min(first + elements_of(slice), wanted.end);
  if (begin >= end) return;
  copy(memory_.result + begin * element_bytes_,
       static_cast<std::byte*>(wanted.output) + (begin - wanted.begin) * element_bytes_, end - begin);
}

void CombiningTree::climb(std::size_t slice) {
  const std::size_t at = offset_of(slice);
  const std::size_t elements = elements_of(slice);
  const std::byte* operand = static_cast<const std::byte*>(call_.input) + at;
  for (const Node& node : way_) {
    if (!meets_sibling(slice, node, operand)) return;
    const std::byte* const other = memory_.areas[static_cast<std::size_t>(node.sibling)] + at;
    const bool is_low = node.own < node.sibling;
    const bool is_root = &node == &way_.back();
    std::byte* const to = is_root ? memory_.result + at : scratch_.data();
    reduce(is_low ? operand : other, is_low ? other : operand, to, elements, is_root);
    ++evaluated_;
    operand = to;
  }
  if (way_.empty()) copy(operand, memory_.result + at, elements);
  memory_.done[slice].store(number_[slice], std::memory_order_release);  // pairs with step()
  ++ended_slices_;
}

bool CombiningTree::meets_sibling(std::size_t slice, const Node& node, const std::byte*& operand) {
  std::atomic<std::uint64_t>& count = this->count(slice, node);
  const std::uint64_t one_came = 2 * number_[slice] - 1;
  // Both orders here pair with the other side's: whoever is second sees the operand that the first one left.
  if (count.load(std::memory_order_acquire) == one_came) {
    count.store(one_came + 1, std::memory_order_relaxed);  // read in the next call, which `done` orders after this one
    return true;
  }
  const std::size_t at = offset_of(slice);
  std::byte* const shown = memory_.areas[static_cast<std::size_t>(node.own)] + at;
  copy(operand, shown, elements_of(slice));
  operand = shown;
  return count.fetch_add(1, std::memory_order_acq_rel) == one_came;
}

void CombiningTree::reduce(const std::byte* low, const std::byte* high, std::byte* to, std::size_t elements,
                           bool is_root) const {
  const Operand operands[] = {{low, 0}, {high, 0}};
  void* const destinations[] = {to};
  reduce_copy({call_.type, call_.kernel, operands, 2, false, is_root ? call_.divisor : 1, destinations, 1, elements});
}

void CombiningTree::copy(const std::byte* from, std::byte* to, std::size_t elements) const {
  const Operand operands[] = {{from, 0}};
  void* const destinations[] = {to};
  reduce_copy({call_.type, call_.kernel, operands, 1, false, 1, destinations, 1, elements});
}

}  // namespace sccl::kernels
