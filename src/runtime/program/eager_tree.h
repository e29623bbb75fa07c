// AllReduces over a combining tree (kernels/host/combining_tree.h): which calls it serves, and where the ranks of a
// communicator share its memory.
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
  // Null where the layout has no memory for it.
  static std::unique_ptr<EagerTree> of(const MemoryLayout& layout, const std::vector<Peer>& peers, Rank rank);
  EagerTree(const MemoryLayout& layout, const std::vector<Peer>& peers, Rank rank);

  // Follows from the call alone, so that all ranks agree.
  bool serves(const CollectiveRequest& request) const;
  void begin(const CollectiveRequest& request);
  bool is_active() const { return active_; }
  using Step = kernels::CombiningTree::Step;
  Step step();

 private:
  kernels::CombiningTree tree_;
  int ranks_;
  std::size_t most_bytes_;
  bool active_ = false;
};

}  // namespace sccl::runtime
