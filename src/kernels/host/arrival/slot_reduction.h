// A reduction whose slices lie in slots of shared memory that are used again and again: what the chain and the tree
// have in common. A form says what a rank does with its data of one slice (contribute).
//
// Slice i of a call lies in slot (start + i) mod slots. Calls start in the first and in the second half in turns, so
// that ranks may begin a call while others still take results of the call before. A long call goes round all slots:
// the ranks that are there get that far ahead of one that is late.
//
//   rank                                          a rank that wants to begin the slot's next use
//   contributes, and takes the result it wants
//   passed = slices of all calls with which       sees passed (acquire) of all ranks behind the slot's last slice
//   it has nothing to do any more (release)
//
// Words are never reset. The ranks' calls are the same, so each rank knows how often a slot was used before, and which
// slice used it last. A rank passes slices in order. The first slice that is not passed by all has its slot, so all
// ranks can contribute to it: nobody waits for ever.
//
// A rank that knows that all ranks are in the call does not go far ahead of the results it wants: slices stay in the
// caches from the first contribution to the last copy. It knows that from the first result; until then it goes as far
// as there are slots.
//
// Another rank may be at work at a slice: then a rank goes on with the next slice and comes back. So ranks that come
// together work on different slices, in different orders. A rank that can do nothing else sleeps. It says so in the
// word for which it waits (the lowest bit of `passed`); results are told to all.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/host/arrival/arrival_reduction.h"

namespace sccl::kernels {

// What the ranks share, in memory that reads as zeros at first; addresses are this process's. A slot has the same
// number of places, each for a slice's data. Place p of slot s is number p * slots + s; its area is that number divided
// by places_of_area.
struct ArrivalSlots {
  static constexpr std::size_t kPassedStride = 8;  // a cache line for each rank's word

  std::vector<std::byte*> areas;
  std::size_t places_of_area = 0;
  std::size_t place_bytes = 0;           // of a slice at most
  std::size_t count = 0;                 // of slots
  std::atomic<std::uint64_t>* passed{};  // by rank: 2 * slices + (somebody waits)
};

class SlotReduction : public ArrivalReduction {
 public:
  void begin(const ArrivalCall& call) override;
  // Waits for ranks at work, for a slot that others have not passed, or for results.
  Step step() final;
  // The sum, and the result, lie in a slot's first place.
  std::byte* sum_of(std::size_t slice) const final { return place(slice, 0); }

 protected:
  SlotReduction(ArrivalSlots slots, int rank, int ranks);

  enum class Try : std::uint8_t { contributed, met_other };
  // All ranks have passed the slot's last use. Calls end_slice() if this rank makes the sum of all ranks.
  virtual Try contribute(std::size_t slice) = 0;
  // Another rank was at work: asks to be woken when it is not. False if the slice can go on now.
  virtual bool waits_for(std::size_t slice) = 0;

  std::size_t slot_of(std::size_t slice) const { return (start_ + slice) % slots_.count; }
  // The slot's uses in all calls before this slice.
  std::uint64_t uses_before(std::size_t slice) const { return uses_[slot_of(slice)].count + slice / slots_.count; }
  std::byte* place(std::size_t slice, std::size_t number) const {
    const std::size_t at = number * slots_.count + slot_of(slice);
    return slots_.areas[at / slots_.places_of_area] + at % slots_.places_of_area * slots_.place_bytes;
  }
  // Where the rank that makes the sum of all ranks stores it.
  class Places {
   public:
    void add(void* place) { places_[count_++] = place; }
    Places from(std::size_t bytes) const {
      Places later;
      for (std::size_t i = 0; i < count_; ++i) later.add(static_cast<std::byte*>(places_[i]) + bytes);
      return later;
    }
    std::span<void* const> of_all() const { return {places_.data(), count_}; }

   private:
    std::array<void*, 2> places_{};
    std::size_t count_ = 0;
  };
  Places places_of_sum(std::size_t slice) const;
  void end_slice(std::size_t slice);

 private:
  struct Use {
    std::uint64_t count = 0;
    std::uint64_t end = 0;  // behind the last slice of all calls that used the slot
  };

  bool contribute_next();
  bool may_try_next();
  bool wants_to_try_next() const;
  bool is_free(std::size_t slice);
  bool waits_for_slot(std::size_t slice) const;
  bool take_next();
  void end_take();
  void pass();
  bool has_contributed() const { return next_ == slices() && met_.empty(); }
  std::uint64_t free_from(std::size_t slice) const;
  std::atomic<std::uint64_t>& passed(std::size_t rank) const {
    return slots_.passed[rank * ArrivalSlots::kPassedStride];
  }
  Step wait_or_end();
  void tell_of_results();

  ArrivalSlots slots_;
  std::size_t rank_;
  std::size_t ranks_;
  std::vector<Use> uses_;         // by slot: in earlier calls
  std::size_t start_ = 0;         // the slot of the call's first slice
  std::size_t next_ = 0;          // the next slice that has not been tried
  std::vector<std::size_t> met_;  // slices before it at which another rank was at work
  std::size_t taken_ = 0;         // the next slice to take
  std::size_t take_end_ = 0;
  bool has_all_here_ = false;     // all ranks are in this call
  std::vector<bool> is_stored_;   // by slice: this rank's output has it
  std::uint64_t told_ = 0;        // of the slices whose result this rank has stored
  std::uint64_t passed_ = 0;      // by this rank
  std::uint64_t all_passed_ = 0;  // by all ranks, as far as this rank knows
};

}  // namespace sccl::kernels
