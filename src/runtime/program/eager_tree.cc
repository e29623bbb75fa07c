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

// Of the vector that is reduced.
std::size_t elements_of(const CollectiveRequest& request, int ranks) {
  return request.collective == Collective::reducescatter ? request.count * static_cast<std::size_t>(ranks)
                                                         : request.count;
}

}  // namespace

std::unique_ptr<EagerTree> EagerTree::of(const MemoryLayout& layout, const std::vector<Peer>& peers, Rank rank) {
  return layout.tree_bytes() == 0 ? nullptr : std::make_unique<EagerTree>(layout, peers, rank);
}

EagerTree::EagerTree(const MemoryLayout& layout, const std::vector<Peer>& peers, Rank rank)
    : tree_(memory_of(layout, peers), rank, static_cast<int>(peers.size())),
      rank_(rank),
      ranks_(static_cast<int>(peers.size())),
      most_bytes_(layout.tree_bytes()) {}

bool EagerTree::serves(const CollectiveRequest& request) const {
  if (!info(request.collective).reduces || elements_of(request, ranks_) > most_bytes_ / size_bytes(request.type))
    return false;
  device::Call call{};
  apply_reduction(request.reduction, request.type, ranks_, call);
  return !call.scaled;
}

void EagerTree::begin(const CollectiveRequest& request) {
  device::Call call{};
  apply_reduction(request.reduction, request.type, ranks_, call);
  tree_.begin({request.type, call.kernel, request.send, elements_of(request, ranks_),
               MemoryLayout::kTreeSliceBytes / size_bytes(request.type), call.divisor, wanted(request)});
}

kernels::CombiningTreeCall::Wanted EagerTree::wanted(const CollectiveRequest& request) const {
  if (request.collective == Collective::reducescatter) {
    const std::size_t begin = static_cast<std::size_t>(rank_) * request.count;
    return {request.recv, begin, begin + request.count};
  }
  const bool is_wanted = request.collective == Collective::allreduce || rank_ == request.root;
  return {request.recv, 0, is_wanted ? request.count : 0};
}

}  // namespace sccl::runtime
