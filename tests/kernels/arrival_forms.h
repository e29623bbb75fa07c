// The forms of a reduction by the ranks that are there, for World (arrival_world.h): ranks and the memory that they
// share.
#pragma once

#include "arrival_world.h"
#include "kernels/host/arrival/arrival_chain.h"
#include "kernels/host/arrival/arrival_leader.h"
#include "kernels/host/arrival/combining_tree.h"

namespace arrival_test {

// `Slots`: in each area of each rank. With few of them one call goes several rounds.
template <std::size_t Slots>
class Chain {
 public:
  explicit Chain(int ranks)
      : words_(std::make_unique<std::atomic<std::uint64_t>[]>(Slots * static_cast<std::size_t>(ranks))) {
    ArrivalChainMemory memory;
    memory.slots_of_area = Slots;
    memory.slot_bytes = kSlice * sizeof(std::int32_t);
    memory.words = words_.get();
    for (auto& areas : memory.areas)
      for (int rank = 0; rank < ranks; ++rank) areas.push_back(areas_.emplace_back(Slots * memory.slot_bytes).data());
    for (int rank = 0; rank < ranks; ++rank) chains_.emplace_back(memory, ranks);
  }
  ArrivalChain& of(int rank) { return chains_[static_cast<std::size_t>(rank)]; }
  std::atomic<std::uint64_t>& word(std::size_t slot) { return words_[slot]; }

 private:
  std::unique_ptr<std::atomic<std::uint64_t>[]> words_;
  std::deque<std::vector<std::byte>> areas_;
  std::deque<ArrivalChain> chains_;
};

using LongChain = Chain<kSlices>;
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

class Tree {
 public:
  explicit Tree(int ranks)
      : words_(std::make_unique<std::atomic<std::uint64_t>[]>(kSlices * (static_cast<std::size_t>(ranks) + 1))),
        result_(kElements) {
    CombiningTreeMemory memory;
    memory.result = reinterpret_cast<std::byte*>(result_.data());
    memory.counts = words_.get();
    memory.done = &words_[kSlices * static_cast<std::size_t>(ranks)];
    for (int rank = 0; rank < ranks; ++rank)
      memory.areas.push_back(reinterpret_cast<std::byte*>(areas_.emplace_back(kElements).data()));
    for (int rank = 0; rank < ranks; ++rank) trees_.emplace_back(memory, rank, ranks);
  }
  CombiningTree& of(int rank) { return trees_[static_cast<std::size_t>(rank)]; }

 private:
  std::unique_ptr<std::atomic<std::uint64_t>[]> words_;
  std::vector<std::int32_t> result_;
  std::deque<std::vector<std::int32_t>> areas_;
  std::deque<CombiningTree> trees_;
};

}  // namespace arrival_test
