// Reductions over a combining tree (kernels/host/combining_tree.h): which calls the tree serves, and where the ranks of
// a communicator share its memory.
#pragma once

#include <memory>
#include <vector>

#include "kernels/host/combining_tree.h"
#include "runtime/call/requests.h"
#include "runtime/transport/shm/memory_layout.h"
#include "runtime/transport/shm/peer.h"

namespace sccl::runtime {

class EagerTree {
 public:
  // Null if the layout has no memory for a tree.
  static std::unique_ptr<EagerTree> of(const MemoryLayout& layout, const std::vector<Peer>& peers, Rank rank);
  EagerTree(const MemoryLayout& layout, const std::vector<Peer>& peers, Rank rank);

  std::size_t most_bytes() const { return most_bytes_; }
  // Follows from the call alone, so that all ranks agree.
  bool serves(const CollectiveRequest& request) const;
  void begin(const CollectiveRequest& request);
  using Step = kernels::CombiningTree::Step;
  Step step() { return tree_.step(); }
  // How often the others should have been told of results that this rank has stored: once when it is halfway through a
  // long buffer, once at the end.
  int news() const {
    constexpr std::size_t kLong = 16;  // slices
    if (tree_.ended_slices() == 0) return 0;
    if (tree_.climbed() == tree_.slices()) return 2;
    return tree_.slices() >= kLong && tree_.climbed() >= tree_.slices() / 2 ? 1 : 0;
  }

 private:
  kernels::CombiningTreeCall::Wanted wanted(const CollectiveRequest& request) const;

  kernels::CombiningTree tree_;
  Rank rank_;
  int ranks_;
  std::size_t most_bytes_;
};

}  // namespace sccl::runtime
