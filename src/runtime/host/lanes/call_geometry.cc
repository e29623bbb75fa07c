#include "runtime/host/lanes/call_geometry.h"

#include <algorithm>

#include "kernels/program/even_slices.h"

namespace sccl::runtime {
namespace {

using device::u32;

// One slice of each operand fetched from another process should stay in the second-level cache together.
constexpr std::size_t kBounceBudgetBytes = 256 * 1024;
constexpr std::size_t kLeastDirectSliceBytes = 16 * 1024;
constexpr std::size_t kMostDirectSliceBytes = 256 * 1024;
constexpr std::size_t kMostBounceBytes = 2 * 1024 * 1024;  // when slices of another size are asked for
// Lanes whose slices have at least this length take turns after every slice. If one lane filled all its slots first,
// its peer would wait for slots that another lane has to empty. With shorter slices the turns cost more than that wait.
constexpr std::size_t kLeastTurnBytes = 32 * 1024;
// Between two ranks, a slot costs less to take from the peer if the slot was written longer ago, while all slots stay
// in the cache.
constexpr std::size_t kMostDeepBytesOfTwo = 16 * 1024;

std::size_t up_to_line(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

bool CallGeometry::fit(const CollectiveRequest& request, const Choice& choice, const Plan& plan, bool sees_buffers) {
  const Origin origin{&plan,         choice.form,  choice.protocol, choice.slice_bytes,
                      request.count, request.type, sees_buffers};
  if (origin == origin_) return false;
  origin_ = {};  // until the geometry is complete
  make(request, choice, plan, sees_buffers);
  origin_ = origin;
  return true;
}

// Ranks place only their own chunks. The extent is over all chunks, because ranks cut slices alike.
schedule::Extent CallGeometry::place_chunks(const CollectiveRequest& request, const Plan& plan) {
  const std::size_t element_bytes = size_bytes(request.type);
  places_.resize(plan.chunks.size());
  schedule::place_chunks(plan.layout, plan.chunks, request.count, element_bytes, places_);
  chunks_.clear();
  for (const schedule::ChunkPlace& place : places_)
    chunks_.push_back({place.input_offset, place.output_offset, place.elements, 0, 0});
  schedule::Extent extent = schedule::extent_of(plan.layout, request.count, element_bytes);
  extent.longest = std::max<std::size_t>(extent.longest, 1);
  return extent;
}

// Data that will not stay in the caches is stored past them.
bool CallGeometry::leaves_caches(const CollectiveRequest& request, const schedule::Extent& extent,
                                 bool sees_buffers) const {
  const CollectiveInfo& about = info(request.collective);
  const auto ranks = static_cast<std::size_t>(membership_.ranks);
  const auto [least, most] = std::minmax(extent.input_end, extent.output_end);
  const std::size_t all_elements = about.rooted ? most + least * (ranks - 1) : (least + most) * ranks;
  // A copy by the system leaves its part of the result in the caches. Streaming stores for the local part then cost a
  // third more.
  const bool copied_by_system = shape_.touches_peers && !about.reduces && !sees_buffers;
  return all_elements * size_bytes(request.type) >= membership_.settings.stream_bytes && !copied_by_system;
}

MemoryLayout::RingKind CallGeometry::kind_for(const CollectiveInfo& about, std::size_t longest_bytes) const {
  using RingKind = MemoryLayout::RingKind;
  const bool fits = MemoryLayout::has_deep(membership_.ranks) && !shape_.touches_peers &&
                    longest_bytes <= membership_.layout.slot_bytes(RingKind::deep);
  const bool of_two =
      membership_.ranks == 2 && longest_bytes > device::kInlineMessageBytes && longest_bytes <= kMostDeepBytesOfTwo;
  return fits && (about.rooted || of_two) ? RingKind::deep : RingKind::collective;
}

std::size_t CallGeometry::slice_bytes(const Choice& choice) const {
  if (shape_.touches_peers) {
    const std::size_t operands = std::max<std::size_t>(1, shape_.operands);
    if (choice.slice_bytes != 0) return std::min(choice.slice_bytes, kMostBounceBytes / operands / 64 * 64);
    return std::clamp(kBounceBudgetBytes / operands, kLeastDirectSliceBytes, kMostDirectSliceBytes);
  }
  const std::size_t slot_bytes = membership_.layout.slot_bytes(shape_.kind);
  return choice.slice_bytes != 0 ? std::min(slot_bytes, choice.slice_bytes) : slot_bytes;
}

void CallGeometry::make(const CollectiveRequest& request, const Choice& choice, const Plan& plan, bool sees_buffers) {
  const std::size_t element_bytes = size_bytes(request.type);
  const schedule::Extent extent = place_chunks(request, plan);
  const std::size_t longest_bytes = extent.longest * element_bytes;
  shape_ = {};
  shape_.touches_peers = choice.form == Form::direct;
  shape_.kind = kind_for(info(request.collective), longest_bytes);
  shape_.operands = plan.program.most_operands();
  shape_.destinations = plan.program.most_destinations();
  const std::size_t slice = slice_bytes(choice);
  shape_.bounce_bytes = shape_.touches_peers ? slice : 0;
  shape_.streamed_bytes = leaves_caches(request, extent, sees_buffers) ? extent.output_end * element_bytes : 0;
  // If the peers' buffers are used in place, every store goes to some rank's result.
  shape_.streams_everything = shape_.touches_peers && sees_buffers && shape_.streamed_bytes > 0;
  const bool ll =
      choice.protocol == ProtocolChoice::ll && longest_bytes <= MemoryLayout::inline_message_bytes(shape_.kind);
  shape_.lanes_in_turn = std::min(slice, longest_bytes) >= kLeastTurnBytes;
  shape_.moves_together = shape_.lanes_in_turn && !shape_.touches_peers && !ll && shape_.streamed_bytes > 0;
  shape_.between_hosts = membership_.between_hosts.net.has_value();
  if (shape_.between_hosts && !shape_.touches_peers) {
    shape_.shown =
        ShownBuffers::of(info(request.collective), extent.input_end * element_bytes, extent.output_end * element_bytes);
    shape_.shown.lands &= !ll && longest_bytes >= kernels::Landing::kLeastBytes;
    shape_.lands_past_caches = shape_.streamed_bytes > 0;
  }

  call_ = {};
  call_.chunks = chunks_.data();
  call_.type = request.type;
  call_.protocol = ll ? device::Protocol::ll : device::Protocol::simple;
  call_.element_bytes = static_cast<u32>(element_bytes);
  call_.lends_slots = !ll && plan.may_lend;
  call_.slice_elements = kernels::even_slice(extent.longest, slice / element_bytes, element_bytes);
  call_.slice_count = (extent.longest + call_.slice_elements - 1) / call_.slice_elements;
  call_.scratch_slot_bytes = std::min(slice, up_to_line(longest_bytes));
  const std::size_t scratch_bytes = call_.scratch_slot_bytes * static_cast<std::size_t>(plan.program.scratch_slots());
  if (scratch_.size() < scratch_bytes) scratch_.resize(scratch_bytes);
  call_.scratch = scratch_.data();
}

void CallGeometry::fit(const TransferBatch& batch) {
  origin_ = {};
  shape_ = {};
  shape_.touches_peers = membership_.reaches_buffers();
  shape_.operands = batch.program().most_operands();
  shape_.destinations = batch.program().most_destinations();
  shape_.lanes_in_turn = batch.most_bytes() >= kLeastTurnBytes;
  shape_.between_hosts = membership_.between_hosts.net.has_value();
  shape_.shown.input = shape_.between_hosts && !shape_.touches_peers && !batch.overlaps();
  shape_.shown.lands = shape_.shown.input && batch.most_bytes() >= kernels::Landing::kLeastBytes;
  const std::size_t all_bytes = batch.all_bytes() * static_cast<std::size_t>(membership_.ranks);
  shape_.lands_past_caches = all_bytes >= membership_.settings.stream_bytes;
  call_ = {};
  call_.chunks = batch.chunks().data();
  call_.type = DataType::int8;
  call_.element_bytes = 1;
  call_.slice_elements = membership_.layout.slot_bytes();
  call_.slice_count = (batch.most_bytes() + call_.slice_elements - 1) / call_.slice_elements;
  call_.divisor = 1;
}

}  // namespace sccl::runtime
