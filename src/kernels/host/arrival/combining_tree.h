// A reduction over a fixed binary tree of ranks, evaluated by whoever is there: of the two sides of a node the one that
// comes first leaves its operand in memory that all ranks share and goes; the one that comes second evaluates the node
// and climbs on. Which ranks a node joins does not depend on who comes when, so every run gives the same bits. After
// the last arrival log2(ranks) additions remain, which the last rank does.
//
// Ranks 2k and 2k + 1 share place k of a slice's slot (slot_reduction.h). A node's sum goes to the place of its lowest
// rank, where one of its operands may have lain. A word for each node of a slot counts on by kUse in each use:
//
//   first                                    second
//   +0 -> there: goes                        sees there (acquire): next use, evaluates
//   (acquire, release)
//
// where the sides have places of their own. If both left their operand, the second one to say so evaluates. Ranks 2k
// and 2k + 1 have one place:
//
//   +0 -> at work                            sees at work: goes on with another slice and comes back
//   operand -> place
//   there (release): goes                    sees there (acquire): next use, evaluates
//
// The root's evaluator stores the result, then `done` = use (release). A slot is used again when all ranks have passed
// its last use, so no place is written while it is read. tests/models/combining_tree.pml proves this.
//
// A rank evaluates the nodes on its way whose other sides are there in one pass over memory. Sums and products of
// 16-bit and 8-bit floats it evaluates node by node, block by block: in one pass they would be rounded more seldom, and
// so otherwise than in runs in which other ranks come last. What lies between two nodes stays in the first-level cache.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/host/arrival/slot_reduction.h"

namespace sccl::kernels {

// What the ranks share, in memory that reads as zeros at first. A slot has places(ranks) places.
struct CombiningTreeMemory {
  ArrivalSlots slots;
  std::atomic<std::uint64_t>* counts{};  // by slot, then by node; 0 is not used
  std::atomic<std::uint64_t>* done{};    // by slot

  static std::size_t places(std::size_t ranks) { return (ranks + 1) / 2; }
};

class CombiningTree final : public SlotReduction {
 public:
  CombiningTree(CombiningTreeMemory memory, int rank, int ranks);

  bool has_sum(std::size_t slice) const override;

 private:
  // A node on the way from this rank to the root.
  struct Node {
    int number;   // the first rank of its upper side
    int own;      // the first rank of the side that this rank is on
    int sibling;  // and of the other one
    bool shares_place() const { return own / 2 == sibling / 2; }
  };
  using Way = std::span<const Node>;
  enum class Side : std::uint8_t { first, second, met_other };

  Try contribute(std::size_t slice) override;
  bool waits_for(std::size_t slice) override;
  Side leave(std::size_t slice, const Node& node, const std::byte* operand);
  Side leave_in_shared_place(std::size_t slice, const Node& node, const std::byte* operand);
  bool finds_sibling(std::size_t slice, const Node& node) const;
  void evaluate(std::size_t slice, Way nodes, const std::byte* operand);
  void evaluate_in_one_pass(std::size_t slice, Way nodes, const std::byte* operand, const Places& places, Sum sum);
  void evaluate_by_blocks(std::size_t slice, Way nodes, const std::byte* operand, const Places& places, Sum sum);
  std::byte* place_of(std::size_t slice, int rank) const { return place(slice, static_cast<std::size_t>(rank) / 2); }
  std::atomic<std::uint64_t>& count(std::size_t slice, const Node& node) const {
    return counts_[slot_of(slice) * static_cast<std::size_t>(ranks_) + static_cast<std::size_t>(node.number)];
  }

  std::atomic<std::uint64_t>* counts_;
  std::atomic<std::uint64_t>* done_;
  int ranks_;
  std::vector<Node> way_;  // from this rank to the root
  std::vector<Operand> operands_;
  std::vector<std::byte> scratch_;
};

}  // namespace sccl::kernels
