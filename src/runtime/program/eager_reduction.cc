#include "runtime/program/eager_reduction.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/host/arrival/arrival_chain.h"
#include "kernels/host/arrival/arrival_leader.h"
#include "kernels/host/arrival/combining_tree.h"
#include "runtime/program/reduction.h"

namespace sccl::runtime {
namespace {

// A longer block hides the way between hosts better; a shorter one lets hosts exchange while ranks still add.
constexpr std::size_t kBlockSlices = 32;

std::vector<std::byte*> areas_of(const MemoryLayout& layout, const std::vector<Peer>& peers) {
  std::vector<std::byte*> areas;
  for (const Peer& peer : peers) areas.push_back(layout.arrival(peer.segment->data()).area);
  return areas;
}

// Of MemoryLayout::Arrival::roles: after those of a leader.
constexpr std::size_t kPublishedWord = 3;
static_assert(MemoryLayout::kArrivalRoleWords > kPublishedWord);

// Of all areas of the host's ranks; `places`: of each slot. Neighbouring slices lie together in blocks of kBlockSlices.
kernels::ArrivalSlots slots_of(const MemoryLayout& layout, const std::vector<Peer>& peers, std::size_t places) {
  kernels::ArrivalSlots slots;
  for (const Peer& peer : peers) {
    const MemoryLayout::Arrival arrival = layout.arrival(peer.segment->data());
    slots.areas.insert(slots.areas.end(), {arrival.area, arrival.second_area});
  }
  slots.places_of_area = layout.arrival_slices();
  slots.place_bytes = MemoryLayout::kArrivalSliceBytes;
  slots.count = slots.areas.size() * slots.places_of_area / places / (2 * kBlockSlices) * (2 * kBlockSlices);
  slots.passed = layout.arrival(peers.front().segment->data()).passed;
  return slots;
}

std::unique_ptr<kernels::ArrivalReduction> tree(const MemoryLayout& layout, const std::vector<Peer>& peers, Rank rank) {
  kernels::CombiningTreeMemory memory;
  const MemoryLayout::Arrival first = layout.arrival(peers.front().segment->data());
  memory.slots = slots_of(layout, peers, kernels::CombiningTreeMemory::places(peers.size()));
  memory.counts = first.counts;
  memory.done = first.done;
  return std::make_unique<kernels::CombiningTree>(std::move(memory), rank, static_cast<int>(peers.size()));
}

std::unique_ptr<kernels::ArrivalReduction> chain(const MemoryLayout& layout, const std::vector<Peer>& peers,
                                                 Rank rank) {
  kernels::ArrivalChainMemory memory;
  memory.slots = slots_of(layout, peers, 1);
  memory.words = layout.arrival(peers.front().segment->data()).counts;
  return std::make_unique<kernels::ArrivalChain>(std::move(memory), rank, static_cast<int>(peers.size()));
}

std::unique_ptr<kernels::ArrivalReduction> leader(const MemoryLayout& layout, const std::vector<Peer>& peers,
                                                  Rank rank) {
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
  // A rank alone on its host has nobody to lead.
  if (form == ArrivalForm::leader && peers.size() > 1) return leader(layout, peers, rank);
  if (form == ArrivalForm::chain) return chain(layout, peers, rank);
  return tree(layout, peers, rank);
}

std::unique_ptr<kernels::ArrivalReduction> reduction_of(ArrivalForm form, const MemoryLayout& layout,
                                                        const std::vector<Peer>& peers, const ArrivalPlace& place) {
  std::vector<Peer> beside;
  for (const Rank rank : place.beside) beside.push_back(peers[static_cast<std::size_t>(rank)]);
  const auto own = std::find(place.beside.begin(), place.beside.end(), place.rank) - place.beside.begin();
  auto reduction = reduction_of(form, layout, beside, static_cast<Rank>(own));
  using Part = kernels::ArrivalReduction::Part;
  if (place.over_hosts())
    reduction->share_results(layout.arrival(beside.front().segment->data()).roles[kPublishedWord],
                             place.joins_hosts() ? Part::joins_hosts : Part::member);
  return reduction;
}

// Of the vector that is reduced.
std::size_t elements_of(const CollectiveRequest& request, int ranks) {
  return request.collective == Collective::reducescatter ? request.count * static_cast<std::size_t>(ranks)
                                                         : request.count;
}

}  // namespace

std::unique_ptr<EagerReduction> EagerReduction::of(const Settings& settings, const MemoryLayout& layout,
                                                   const std::vector<Peer>& peers, const ArrivalPlace& place) {
  if (settings.arrival == ArrivalForm::never || layout.arrival_bytes() == 0) return nullptr;
  return std::make_unique<EagerReduction>(settings, layout, peers, place);
}

EagerReduction::EagerReduction(const Settings& settings, const MemoryLayout& layout, const std::vector<Peer>& peers,
                               const ArrivalPlace& place)
    : form_(settings.arrival == ArrivalForm::automatic ? ArrivalForm::chain : settings.arrival),
      reduction_(reduction_of(form_, layout, peers, place)),
      rank_(place.rank),
      ranks_(place.ranks),
      beside_(place.beside),
      over_hosts_(place.over_hosts()),
      // The slots of a chain and of a tree are used again and again.
      most_bytes_(form_ == ArrivalForm::leader ? layout.arrival_bytes() : std::numeric_limits<std::size_t>::max()),
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
  published_ = summed_ = 0;
  element_bytes_ = size_bytes(request.type);
  // The ranks of a host make only a part of the sum, which is divided when it is whole.
  reduction_->begin({request.type, call.kernel, request.send, elements_of(request, ranks_),
                     MemoryLayout::kArrivalSliceBytes / size_bytes(request.type), over_hosts_ ? 1 : call.divisor,
                     wanted(request)});
}

EagerReduction::News EagerReduction::take_news() {
  News news = reduction_->take_news();
  if (news.rank >= 0) news.rank = beside_[static_cast<std::size_t>(news.rank)];
  return news;
}

std::size_t EagerReduction::block_end() const { return std::min(published_ + kBlockSlices, reduction_->slices()); }

// Not where a block goes round the slots, or on to another area.
bool EagerReduction::lies_together() const {
  for (std::size_t slice = published_ + 1; slice < block_end(); ++slice)
    if (reduction_->sum_of(slice) != reduction_->sum_of(slice - 1) + MemoryLayout::kArrivalSliceBytes) return false;
  return true;
}

void EagerReduction::copy_block(Copy direction) {
  for (std::size_t slice = published_; slice < block_end(); ++slice) {
    std::byte* const sum = reduction_->sum_of(slice);
    std::byte* const copy = block_.data() + (slice - published_) * MemoryLayout::kArrivalSliceBytes;
    const std::size_t bytes = reduction_->elements_of(slice) * element_bytes_;
    direction == Copy::out ? std::memcpy(copy, sum, bytes) : std::memcpy(sum, copy, bytes);
  }
}

EagerReduction::Block EagerReduction::next_block() {
  while (summed_ < block_end() && reduction_->has_sum(summed_)) ++summed_;
  if (summed_ < block_end()) return {};
  is_copied_ = !lies_together();
  if (is_copied_) {
    block_.resize(kBlockSlices * MemoryLayout::kArrivalSliceBytes);
    copy_block(Copy::out);
  }
  Block block{is_copied_ ? block_.data() : reduction_->sum_of(published_), 0};
  for (std::size_t slice = published_; slice < block_end(); ++slice) block.elements += reduction_->elements_of(slice);
  return block;
}

void EagerReduction::publish_block() {
  if (is_copied_) copy_block(Copy::back);
  published_ = block_end();
  reduction_->publish_before(published_);
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
