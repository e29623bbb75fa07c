#include "runtime/program/eager_tree.h"

#include "runtime/program/reduction.h"

namespace sccl::runtime {
namespace {

kernels::CombiningTreeMemory memory_of(const MemoryLayout& layout, const std::vector<Peer>& peers) {
  kernels::CombiningTreeMemory memory;
  for (const Peer& peer : peers) memory.areas.push_back(layout.tree_area(peer.segment->data()));
  std::byte* const first = peers.front().segment->data();
  memory.result = layout.tree_result(first);
  memory.counts = layout.tree_counts(first);
  memory.done = layout.tree_done(first);
  return memory;
}

}  // namespace

std::unique_ptr<EagerTree> EagerTree::of(const MemoryLayout& layout, const std::vector<Peer>& peers, Rank rank) {
  return layout.tree_bytes() == 0 ? nullptr : std::make_unique<EagerTree>(layout, peers, rank);
}

EagerTree::EagerTree(const MemoryLayout& layout, const std::vector<Peer>& peers, Rank rank)
    : tree_(memory_of(layout, peers), rank, static_cast<int>(peers.size())),
      ranks_(static_cast<int>(peers.size())),
      most_bytes_(layout.tree_bytes()) {}

bool EagerTree::serves(const CollectiveRequest& request) const {
  if (request.collective != Collective::allreduce || request.count * size_bytes(request.type) > most_bytes_)
    return false;
  device::Call call{};
  apply_reduction(request.reduction, request.type, ranks_, call);
  return !call.scaled;
}

void EagerTree::begin(const CollectiveRequest& request) {
  device::Call call{};
  apply_reduction(request.reduction, request.type, ranks_, call);
  tree_.begin({request.type, call.kernel, request.send, request.recv, request.count,
               MemoryLayout::kTreeSliceBytes / size_bytes(request.type), call.divisor});
  active_ = true;
}

EagerTree::Step EagerTree::step() {
  const Step step = tree_.step();
  active_ = step != Step::done;
  return step;
}

}  // namespace sccl::runtime
