#include "kernels/host/arrival/arrival_chain.h"

#include <span>
#include <utility>

namespace sccl::kernels {
namespace {

constexpr std::uint64_t kAtWork = 1;
constexpr std::uint64_t kAwaited = 2;
constexpr int kCountShift = 2;

}  // namespace

ArrivalChain::ArrivalChain(ArrivalChainMemory memory, int rank, int ranks)
    : SlotReduction(std::move(memory.slots), rank, ranks),
      words_(memory.words),
      ranks_(static_cast<std::uint64_t>(ranks)) {}

void ArrivalChain::begin(const ArrivalCall& call) {
  SlotReduction::begin(call);
  led_slices_ = 0;
}

bool ArrivalChain::has_sum(std::size_t slice) const {
  const std::uint64_t word = word_of(slice).load(std::memory_order_acquire);  // pairs with contribute()
  return word >> kCountShift >= before(slice) + ranks_;
}

ArrivalChain::Try ArrivalChain::contribute(std::size_t slice) {
  std::atomic<std::uint64_t>& shared = word_of(slice);
  std::uint64_t word = shared.load(std::memory_order_relaxed);
  const std::uint64_t count = word >> kCountShift;
  if ((word & kAtWork) != 0) return Try::met_other;
  // Acquire: pairs with the last contribution's release below.
  if (!shared.compare_exchange_strong(word, word | kAtWork, std::memory_order_acquire, std::memory_order_relaxed))
    return Try::met_other;
  add(slice, count - before(slice));
  // Pairs with the acquire above and with has_sum().
  const std::uint64_t old = shared.exchange((count + 1) << kCountShift, std::memory_order_release);
  if ((old & kAwaited) != 0) tell(News::kEverybody);
  if (count + 1 == before(slice) + ranks_) end_slice(slice);
  return Try::contributed;
}

// `place`: the contributions that the sum holds.
void ArrivalChain::add(std::size_t slice, std::uint64_t place) {
  const Operand both[] = {{sum_of(slice), 0}, {input_of(slice), 0}};
  const std::span<const Operand> operands = std::span(both).last(place == 0 ? 1 : 2);
  void* const partial[] = {sum_of(slice)};
  if (place + 1 == ranks_)
    reduce(operands, places_of_sum(slice).of_all(), elements_of(slice), Sum::last);
  else
    reduce(operands, partial, elements_of(slice), Sum::partial);
  count_additions(operands.size() - 1);
  if (place == 0) ++led_slices_;
}

// Asks to be woken by the rank that is at work. All others who wait wait for results, of which they are told.
bool ArrivalChain::waits_for(std::size_t slice) {
  std::atomic<std::uint64_t>& shared = word_of(slice);
  std::uint64_t word = shared.load(std::memory_order_relaxed);
  if ((word & kAtWork) == 0) return false;
  return (word & kAwaited) != 0 ||
         shared.compare_exchange_strong(word, word | kAwaited, std::memory_order_relaxed, std::memory_order_relaxed);
}

}  // namespace sccl::kernels
