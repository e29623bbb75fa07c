#include "runtime/program/eager_reduction.h"

#include <limits>

#include "kernels/host/arrival_chain.h"
#include "kernels/host/arrival_leader.h"
#include "kernels/host/combining_tree.h"
#include "runtime/program/reduction.h"

namespace sccl::runtime {
namespace {

std::vector<std::byte*> areas_of(const MemoryLayout& layout, const std::vector<Peer>& peers) {
  std::vector<std::byte*> areas;
  for (const Peer& peer : peers) areas.push_back(layout.arrival(peer.segment->data()).area);
  return areas;
}

std::unique_ptr<kernels::ArrivalReduction> tree(const MemoryLayout& layout, const std::vector<Peer>& peers, Rank rank) {
  kernels::CombiningTreeMemory memory;
  const MemoryLayout::Arrival first = layout.arrival(peers.front().segment->data());
  memory.areas = areas_of(layout, peers);
  memory.result = first.second_area;
  memory.counts = first.counts;
  memory.done = first.done;
  return std::make_unique<kernels::CombiningTree>(std::move(memory), rank, static_cast<int>(peers.size()));
}

std::unique_ptr<kernels::ArrivalReduction> chain(const MemoryLayout& layout, const std::vector<Peer>& peers) {
  kernels::ArrivalChainMemory memory;
  memory.areas[0] = areas_of(layout, peers);
  for (const Peer& peer : peers) memory.areas[1].push_back(layout.arrival(peer.segment->data()).second_area);
  memory.slots_of_area = layout.arrival_bytes() / MemoryLayout::kArrivalSliceBytes;
  memory.slot_bytes = MemoryLayout::kArrivalSliceBytes;
  memory.words = layout.arrival(peers.front().segment->data()).counts;
  return std::make_unique<kernels::ArrivalChain>(std::move(memory), static_cast<int>(peers.size()));
}

std::unique_ptr<kernels::ArrivalReduction> leader(const MemoryLayout& layout, const std::vector<Peer>& peers,
                                                  Rank rank) {
  static_assert(MemoryLayout::kArrivalRoleWords >= 3);
  kernels::ArrivalLeaderMemory memory;
  const MemoryLayout::Arrival first = layout.arrival(peers.front().segment->data());
  memory.areas = areas_of(layout, peers);
  memory.result = first.second_area;
  memory.arrivals = first.roles;
  memory.leader = first.roles + 1;
  memory.ended = first.roles + 2;
  memory.done = first.done;
  memory.ready = first.counts;
  return std::make_unique<kernels::ArrivalLeader>(std::move(memory), rank, static_cast<int>(peers.size()));
}

std::unique_ptr<kernels::ArrivalReduction> reduction_of(ArrivalForm form, const MemoryLayout& layout,
                                                        const std::vector<Peer>& peers, Rank rank) {
  if (form == ArrivalForm::leader) return leader(layout, peers, rank);
  if (form == ArrivalForm::chain) return chain(layout, peers);
  return tree(layout, peers, rank);
}

// Of the vector that is reduced.
std::size_t elements_of(const CollectiveRequest& request, int ranks) {
  return request.collective == Collective::reducescatter ? request.count * static_cast<std::size_t>(ranks)
                                                         : request.count;
}

}  // namespace

std::unique_ptr<EagerReduction> EagerReduction::of(const Settings& settings, const MemoryLayout& layout,
                                                   const std::vector<Peer>& peers, Rank rank) {
  if (settings.arrival == ArrivalForm::never || layout.arrival_bytes() == 0) return nullptr;
  return std::make_unique<EagerReduction>(settings, layout, peers, rank);
}

EagerReduction::EagerReduction(const Settings& settings, const MemoryLayout& layout, const std::vector<Peer>& peers,
                               Rank rank)
    : form_(settings.arrival == ArrivalForm::automatic ? ArrivalForm::chain : settings.arrival),
      reduction_(reduction_of(form_, layout, peers, rank)),
      rank_(rank),
      ranks_(static_cast<int>(peers.size())),
      // A chain's slots are used again and again.
      most_bytes_(form_ == ArrivalForm::chain ? std::numeric_limits<std::size_t>::max() : layout.arrival_bytes()),
      stream_bytes_(settings.stream_bytes) {}

std::string_view EagerReduction::name() const {
  return form_ == ArrivalForm::chain ? "arrival chain" : form_ == ArrivalForm::leader ? "arrival leader" : "eager tree";
}

bool EagerReduction::serves(const CollectiveRequest& request) const {
  if (!info(request.collective).reduces || elements_of(request, ranks_) > most_bytes_ / size_bytes(request.type))
    return false;
  device::Call call{};
  apply_reduction(request.reduction, request.type, ranks_, call);
  return !call.scaled;
}

void EagerReduction::begin(const CollectiveRequest& request) {
  device::Call call{};
  apply_reduction(request.reduction, request.type, ranks_, call);
  reduction_->begin({request.type, call.kernel, request.send, elements_of(request, ranks_),
                     MemoryLayout::kArrivalSliceBytes / size_bytes(request.type), call.divisor, wanted(request)});
}

kernels::ArrivalCall::Wanted EagerReduction::wanted(const CollectiveRequest& request) const {
  using Readers = kernels::ArrivalCall::Readers;
  if (request.collective == Collective::reducescatter) {
    const std::size_t begin = static_cast<std::size_t>(rank_) * request.count;
    return {request.recv, begin, begin + request.count, Readers::only_this, stores(request)};
  }
  if (request.collective == Collective::allreduce)
    return {request.recv, 0, request.count, Readers::all, stores(request)};
  return {request.recv, 0, rank_ == request.root ? request.count : 0, Readers::only_this, stores(request)};
}

// As the usual schedules: where the buffers of all ranks together do not stay in the caches anyway.
kernels::ArrivalCall::Stores EagerReduction::stores(const CollectiveRequest& request) const {
  const std::size_t results = request.collective == Collective::reduce ? 1 : static_cast<std::size_t>(ranks_);
  const bool is_long = results * request.count * size_bytes(request.type) >= stream_bytes_;
  return is_long ? kernels::ArrivalCall::Stores::past_caches : kernels::ArrivalCall::Stores::cached;
}

}  // namespace sccl::runtime
