// A reduction over a fixed binary tree of ranks, evaluated by whoever is there: of the two sides of a node the one that
// comes first leaves its operand in memory that all ranks share and goes; the one that comes second evaluates the node
// and climbs on. Which ranks a node joins does not depend on who comes when, so every run gives the same bits. After
// the last arrival log2(ranks) additions remain, which the last rank does.
//
//   first                                   second
//   operand -> area of its lowest rank      sees count == 2 * call - 1 (acquire)
//   count += 1 (acquire, release)           count = 2 * call
//   was 2 * call - 2: goes                  evaluates: own operand, and the one in the sibling's area
//   was 2 * call - 1: is second after all
//
// The root's evaluator stores the result, then `done` = call (release). Data is cut into slices, each with counts of
// its own. No word is reset: a count rises by 2 in each call that uses the slice, which is what "call" counts here; as
// it follows from the calls alone, each rank counts for itself. A rank begins a slice when it has seen the `done` of
// the last call that used the slice, so no area is written while it is read. A result is overwritten when all ranks
// have contributed to the slice's next call; a rank that wants the result has taken it by then. A rank that wants
// nothing of the result leaves when it has climbed. tests/models/combining_tree.pml proves this.
//
// Nodes are evaluated one by one, though a rank that climbs could add several operands in one pass: 16-bit and 8-bit
// floats would then be rounded more seldom in runs in which it comes late.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/host/arrival/arrival_reduction.h"

namespace sccl::kernels {

// What the ranks share, in memory that reads as zeros at first; addresses are this process's.
struct CombiningTreeMemory {
  std::vector<std::byte*> areas;       // by rank: operands, slice after slice
  std::byte* result = nullptr;         // likewise
  std::atomic<std::uint64_t>* counts;  // by slice, then by node; 0 is not used
  std::atomic<std::uint64_t>* done;    // by slice
};

class CombiningTree final : public ArrivalReduction {
 public:
  CombiningTree(CombiningTreeMemory memory, int rank, int ranks);

  void begin(const ArrivalCall& call) override;
  // A slice's way up, or out of the result. Waits for a result, or for the last call's end.
  Step step() override;

  bool has_sum(std::size_t slice) const override;
  std::byte* sum_of(std::size_t slice) const override { return memory_.result + offset_of(slice); }

 private:
  // A node on the way from this rank to the root.
  struct Node {
    int number;   // the first rank of its upper side
    int own;      // the first rank of the side that this rank is on
    int sibling;  // and of the other one
  };

  Step climb_next();
  void climb(std::size_t slice);
  // True when the sibling's operand is there; else this side's is, and the sibling goes on.
  bool meets_sibling(std::size_t slice, const Node& node, const std::byte*& operand);
  std::size_t offset_of(std::size_t slice) const { return bytes_of(range_of(slice).begin); }
  std::atomic<std::uint64_t>& count(std::size_t slice, const Node& node) const {
    return memory_.counts[slice * static_cast<std::size_t>(ranks_) + static_cast<std::size_t>(node.number)];
  }

  CombiningTreeMemory memory_;
  int ranks_;
  std::vector<Node> way_;              // from this rank to the root
  std::vector<std::uint64_t> number_;  // by slice: of the calls that used it
  std::size_t climbed_ = 0;            // slices to which this rank has contributed
  std::size_t taken_ = 0;              // the next slice to take
  std::size_t take_end_ = 0;           // behind the last slice to take
  std::vector<std::byte> scratch_;
};

}  // namespace sccl::kernels
