#include "kernels/host/arrival/arrival_reduction.h"

#include <algorithm>

#include "base/types.h"

namespace sccl::kernels {

void ArrivalReduction::start(const ArrivalCall& call) {
  earlier_slices_ += slices_;
  published_slices_ = 0;
  call_ = call;
  element_bytes_ = size_bytes(call.type);
  slices_ = (call.elements + call.slice_elements - 1) / call.slice_elements;
  additions_ = ended_slices_ = 0;
  news_ = {};
}

ArrivalReduction::Range ArrivalReduction::range_of(std::size_t slice) const {
  const std::size_t begin = slice * call_.slice_elements;
  return {begin, std::min(begin + call_.slice_elements, call_.elements)};
}

void ArrivalReduction::publish_before(std::size_t slice) {
  published_slices_ = slice;
  published_->store(earlier_slices_ + slice, std::memory_order_release);  // pairs with has_result()
  tell(News::kEverybody);
}

std::pair<std::size_t, std::size_t> ArrivalReduction::wanted_slices() const {
  const ArrivalCall::Wanted& wanted = call_.wanted;
  const std::size_t first = wanted.begin / call_.slice_elements;
  if (wanted.begin == wanted.end) return {first, first};
  return {first, (wanted.end + call_.slice_elements - 1) / call_.slice_elements};
}

std::byte* ArrivalReduction::output_of(std::size_t slice) const {
  const ArrivalCall::Wanted& wanted = call_.wanted;
  const Range range = range_of(slice);
  if (range.begin < wanted.begin || range.end > wanted.end) return nullptr;
  return static_cast<std::byte*>(wanted.output) + bytes_of(range.begin - wanted.begin);
}

void ArrivalReduction::take(std::size_t slice, const std::byte* result) const {
  const ArrivalCall::Wanted& wanted = call_.wanted;
  const Range whole = range_of(slice);
  const Range part{std::max(whole.begin, wanted.begin), std::min(whole.end, wanted.end)};
  if (part.empty()) return;
  copy(result + bytes_of(part.begin - whole.begin),
       static_cast<std::byte*>(wanted.output) + bytes_of(part.begin - wanted.begin), part.size(),
       is_streamed() ? 1 : 0);
}

void ArrivalReduction::copy(const std::byte* from, std::byte* to, std::size_t elements, std::uint32_t streamed) const {
  const Operand operands[] = {{from, 0}};
  void* const destinations[] = {to};
  reduce_copy({call_.type, call_.kernel, operands, 1, false, 1, destinations, 1, elements, streamed});
}

void ArrivalReduction::reduce(std::span<const Operand> operands, std::span<void* const> to, std::size_t elements,
                              Sum sum, std::uint32_t order) const {
  constexpr std::uint32_t kSecond = 2;
  reduce_copy({call_.type, call_.kernel, operands.data(), static_cast<int>(operands.size()), false,
               sum == Sum::last ? call_.divisor : 1, to.data(), static_cast<int>(to.size()), elements,
               is_streamed() ? kSecond : 0, order});
}

}  // namespace sccl::kernels
