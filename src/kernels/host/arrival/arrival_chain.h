// A reduction along a chain of ranks in the order in which they come (Alizadeh et al., EuroMPI 2022, Algorithm 2). Each
// slice is a chain of its own. Its partial sum lies in memory that all ranks share and passes from hand to hand: the
// rank that comes first puts its data there, each later rank adds its own, the last one thereby makes the result, which
// all others copy. After the last arrival one addition for each slice remains.
//
// A slot holds a slice's sum, and a word says how far it is:
//
//   word = 4 * contributions of all calls + 2 * (somebody waits) + (a rank is at work)
//
//   rank                                    the next one
//   word: at work 0 -> 1 (acquire)
//   sum += own data
//   word: +4, both bits 0 (release)         sees at work == 0 (acquire), and so the sum
//   if somebody waited: wakes sleepers
//
// A rank that meets another one at work goes on with the next slice and comes back, so that ranks that come together
// work on different slices, in different orders. A rank that can do nothing else sets "somebody waits".
//
// Words are never reset. The ranks' calls are the same, so each rank knows how often a slot was used before: in its
// use u a slot gets the contributions (u - 1) * ranks .. u * ranks - 1. A rank contributes to a use when all
// contributions of the use before are there. Uses take turns on two sums, because a rank that comes first in use u + 1
// may write while others still copy the result of use u. Use u + 2 writes there again: then all ranks have contributed
// to use u + 1, and a rank does that after it has copied the result of use u. Slots bound the memory: slice i lies in
// slot i mod slots, and a rank is never a whole round ahead of what it has copied. tests/models/arrival_chain.pml
// proves this; schedule/proof/roles.h has the chain as a schedule.
//
// The order of additions is the order in which ranks come to a slice: sums of floats may round differently from run to
// run. All ranks get the same bits, as each result is made once.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/host/arrival/arrival_reduction.h"

namespace sccl::kernels {

// What the ranks share, in memory that reads as zeros at first; addresses are this process's.
struct ArrivalChainMemory {
  // The sums of even and of odd uses. Slot i is number i mod slots_of_area in area i / slots_of_area.
  std::array<std::vector<std::byte*>, 2> areas;
  std::size_t slots_of_area = 0;
  std::size_t slot_bytes = 0;           // of a slice at most
  std::atomic<std::uint64_t>* words{};  // by slot
};

class ArrivalChain final : public ArrivalReduction {
 public:
  ArrivalChain(ArrivalChainMemory memory, int ranks);

  void begin(const ArrivalCall& call) override;
  // Waits for ranks at work, for a slot's last use, or for results.
  Step step() override;

  bool has_sum(std::size_t slice) const override;
  std::byte* sum_of(std::size_t slice) const override;

  // Slices to which this rank has contributed first in the call.
  std::uint64_t led_slices() const { return led_slices_; }

 private:
  enum class Try : std::uint8_t { contributed, met_other, too_early };

  std::size_t slots() const { return memory_.areas[0].size() * memory_.slots_of_area; }
  std::atomic<std::uint64_t>& word_of(std::size_t slice) const { return memory_.words[slice % slots()]; }
  std::uint64_t use_of(std::size_t slice) const { return 1 + uses_[slice % slots()] + slice / slots(); }
  // Contributions of all calls to the slot when the slice's first one is due.
  std::uint64_t before(std::size_t slice) const { return (use_of(slice) - 1) * ranks_; }

  bool contribute_next();
  bool may_try_next() const;
  bool take_next();
  Try contribute(std::size_t slice);
  void add(std::size_t slice, std::uint64_t place);
  // False if the slice can go on now.
  bool waits_for(std::size_t slice) const;
  bool has_contributed() const { return next_ == slices() && met_.empty(); }
  Step wait_or_end();
  void tell_of_results();

  ArrivalChainMemory memory_;
  std::uint64_t ranks_;
  std::vector<std::uint64_t> uses_;  // by slot: in earlier calls
  std::size_t next_ = 0;             // the next slice that has not been tried
  std::vector<std::size_t> met_;     // slices before it at which another rank was at work
  std::size_t taken_ = 0;            // the next slice to take
  std::size_t take_end_ = 0;
  std::vector<bool> stored_;  // by slice: this rank's output has it
  std::uint64_t led_slices_ = 0;
  std::uint64_t told_ = 0;  // of the slices whose result this rank has stored
};

}  // namespace sccl::kernels
