// A reduction along a chain of ranks in the order in which they come (Alizadeh et al., EuroMPI 2022, Algorithm 2). Each
// slice is a chain of its own. Its partial sum lies in a slot (slot_reduction.h) and passes from hand to hand: the rank
// that comes first puts its data there, each later rank adds its own, the last one thereby makes the result, which all
// others copy. After the last arrival one addition for each slice remains.
//
// A word says how far the sum in a slot is:
//
//   word = 4 * contributions of all calls + 2 * (somebody waits) + (a rank is at work)
//
//   rank                                    the next one
//   word: at work 0 -> 1 (acquire)
//   sum += own data
//   word: +4, both bits 0 (release)         sees at work == 0 (acquire), and so the sum
//   if somebody waited: wakes sleepers
//
// In its use u a slot gets the contributions (u - 1) * ranks .. u * ranks - 1. tests/models/arrival_chain.pml proves
// this; schedule/proof/roles.h has the chain as a schedule.
//
// The order of additions is the order in which ranks come to a slice: sums of floats may round differently from run to
// run. All ranks get the same bits, as each result is made once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kernels/host/arrival/slot_reduction.h"

namespace sccl::kernels {

// What the ranks share, in memory that reads as zeros at first. A slot has one place.
struct ArrivalChainMemory {
  ArrivalSlots slots;
  std::atomic<std::uint64_t>* words{};  // by slot
};

class ArrivalChain final : public SlotReduction {
 public:
  ArrivalChain(ArrivalChainMemory memory, int rank, int ranks);

  void begin(const ArrivalCall& call) override;
  bool has_sum(std::size_t slice) const override;

  // Slices to which this rank has contributed first in the call.
  std::uint64_t led_slices() const { return led_slices_; }

 private:
  Try contribute(std::size_t slice) override;
  bool waits_for(std::size_t slice) override;
  void add(std::size_t slice, std::uint64_t place);
  std::atomic<std::uint64_t>& word_of(std::size_t slice) const { return words_[slot_of(slice)]; }
  // Contributions of all calls to the slot when the slice's first one is due.
  std::uint64_t before(std::size_t slice) const { return uses_before(slice) * ranks_; }

  std::atomic<std::uint64_t>* words_;
  std::uint64_t ranks_;
  std::uint64_t led_slices_ = 0;
};

}  // namespace sccl::kernels
