// The forms of a reduction by the ranks that are there, for World (arrival_world.h): ranks and the memory that they
// share.
#pragma once

#include "arrival_world.h"
#include "kernels/host/arrival/arrival_chain.h"
#include "kernels/host/arrival/arrival_leader.h"
#include "kernels/host/arrival/combining_tree.h"

namespace arrival_test {

// What ranks share of slots: as many areas as ranks, with `places` places each.
class Areas {
 public:
  Areas(int ranks, std::size_t places, std::size_t places_of_slot)
      : passed_(std::make_unique<std::atomic<std::uint64_t>[]>(static_cast<std::size_t>(ranks) *
                                                               ArrivalSlots::kPassedStride)) {
    slots_.places_of_area = places;
    slots_.place_bytes = kSlice * sizeof(std::int32_t);
    slots_.count = places * static_cast<std::size_t>(ranks) / places_of_slot;
    slots_.passed = passed_.get();
    for (int rank = 0; rank < ranks; ++rank)
      slots_.areas.push_back(areas_.emplace_back(places * slots_.place_bytes).data());
  }
  const ArrivalSlots& slots() const { return slots_; }

 private:
  ArrivalSlots slots_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> passed_;
  std::deque<std::vector<std::byte>> areas_;
};

// `Places`: in the area of each rank. With few of them one call goes several rounds.
template <std::size_t Places>
class Chain {
 public:
  explicit Chain(int ranks)
      : areas_(ranks, Places, 1), words_(std::make_unique<std::atomic<std::uint64_t>[]>(areas_.slots().count)) {
    for (int rank = 0; rank < ranks; ++rank)
      chains_.emplace_back(ArrivalChainMemory{areas_.slots(), words_.get()}, rank, ranks);
  }
  ArrivalChain& of(int rank) { return chains_[static_cast<std::size_t>(rank)]; }
  std::atomic<std::uint64_t>& word(std::size_t slot) { return words_[slot]; }

 private:
  Areas areas_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> words_;
  std::deque<ArrivalChain> chains_;
};

using LongChain = Chain<2 * kSlices>;
using ShortChain = Chain<1>;

class Leader {
 public:
  explicit Leader(int ranks)
      : words_(std::make_unique<std::atomic<std::uint64_t>[]>(
            3 + kSlices + static_cast<std::size_t>(ranks) * ArrivalLeader::kReadyStride)) {
    ArrivalLeaderMemory memory;
    const std::size_t bytes = kElements * sizeof(std::int32_t);
    for (int rank = 0; rank < ranks; ++rank) memory.areas.push_back(areas_.emplace_back(bytes).data());
    memory.result = areas_.emplace_back(bytes).data();
    memory.arrivals = &words_[0];
    memory.leader = &words_[1];
    memory.ended = &words_[2];
    memory.done = &words_[3];
    memory.ready = &words_[3 + kSlices];
    for (int rank = 0; rank < ranks; ++rank) leaders_.emplace_back(memory, rank, ranks);
  }
  ArrivalLeader& of(int rank) { return leaders_[static_cast<std::size_t>(rank)]; }

 private:
  std::unique_ptr<std::atomic<std::uint64_t>[]> words_;
  std::deque<std::vector<std::byte>> areas_;
  std::deque<ArrivalLeader> leaders_;
};

template <std::size_t Places>
class Tree {
 public:
  explicit Tree(int ranks)
      : areas_(ranks, Places, CombiningTreeMemory::places(static_cast<std::size_t>(ranks))),
        counts_(std::make_unique<std::atomic<std::uint64_t>[]>(areas_.slots().count * static_cast<std::size_t>(ranks))),
        done_(std::make_unique<std::atomic<std::uint64_t>[]>(areas_.slots().count)) {
    for (int rank = 0; rank < ranks; ++rank)
      trees_.emplace_back(CombiningTreeMemory{areas_.slots(), counts_.get(), done_.get()}, rank, ranks);
  }
  CombiningTree& of(int rank) { return trees_[static_cast<std::size_t>(rank)]; }
  std::atomic<std::uint64_t>& count(std::size_t slot, int ranks, int node) {
    return counts_[slot * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(node)];
  }

 private:
  Areas areas_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> counts_, done_;
  std::deque<CombiningTree> trees_;
};

using LongTree = Tree<2 * kSlices>;
using ShortTree = Tree<2>;

}  // namespace arrival_test
