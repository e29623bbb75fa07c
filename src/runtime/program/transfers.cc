#include "runtime/program/transfers.h"

#include <algorithm>

#include "base/error.h"
#include "runtime/call/signature.h"
#include "runtime/program/connections.h"
#include "runtime/transport/shm/memory_layout.h"

namespace sccl::runtime {
namespace {

using schedule::Access;
using schedule::Buffer;
using schedule::ChunkId;
using schedule::Op;
using schedule::OpKind;
using schedule::Via;

// From this size on a rendezvous costs less than the second copy through a slot. Both ends decide by the size alone.
constexpr std::size_t kDirectTransferBytes = 32 * 1024;

std::size_t bytes_of(const PointToPointRequest& request) { return request.count * size_bytes(request.type); }

// An operation that moves no data: post, drain or release. Connection indices count transfers_.connections until
// bind_connections().
Op control(OpKind kind, Access access, ChunkId chunk, bool incoming) {
  Op op;
  op.kind = kind;
  op.chunk = chunk;
  (incoming ? op.operands : op.destinations).push_back(access);
  return op;
}

Op move(Access operand, Access destination, ChunkId chunk) {
  Op op;
  op.chunk = chunk;
  op.operands.push_back(operand);
  op.destinations.push_back(destination);
  return op;
}

// The sender posts the address of each part of a transfer, so the receiver's input offset is 0.
void place(device::Chunk& chunk, const PointToPointRequest& request) {
  (request.direction == Direction::send ? chunk.input_offset : chunk.output_offset) =
      reinterpret_cast<device::u64>(request.buffer);
}

}  // namespace

bool TransferBatch::lower(std::span<const PointToPointRequest> batch, Rank rank, int ranks, bool direct) {
  if (repeats(batch, rank, ranks, direct)) {
    for (std::size_t i = 0; i < batch.size(); ++i) place(chunks_[i], batch[i]);
    return false;
  }
  lowered_.transfers.clear();
  transfers_.connections.clear();
  transfers_.lanes.clear();
  chunks_.clear();
  most_bytes_ = all_bytes_ = 0;
  for (const PointToPointRequest& request : batch) {
    if (request.peer == rank) continue;
    append(request, direct);
  }
  pair_own(batch, rank);
  bind_connections(transfers_, static_cast<int>(MemoryLayout::RingKind::point_to_point), ranks);
  flat_.assign(transfers_);
  note_lowered(batch, rank, ranks, direct);
  return true;
}

bool TransferBatch::repeats(std::span<const PointToPointRequest> batch, Rank rank, int ranks, bool direct) const {
  return !lowered_.transfers.empty() && lowered_.rank == rank && lowered_.ranks == ranks && lowered_.direct == direct &&
         std::equal(batch.begin(), batch.end(), lowered_.transfers.begin(), lowered_.transfers.end(),
                    [](const PointToPointRequest& request, const Transfer& transfer) {
                      return Transfer{request.direction, request.peer, bytes_of(request)} == transfer;
                    });
}

// Transfers of a rank to itself share chunks: a batch with some is lowered each time.
void TransferBatch::note_lowered(std::span<const PointToPointRequest> batch, Rank rank, int ranks, bool direct) {
  if (std::any_of(batch.begin(), batch.end(), [&](const auto& request) { return request.peer == rank; })) return;
  lowered_.rank = rank;
  lowered_.ranks = ranks;
  lowered_.direct = direct;
  for (const PointToPointRequest& request : batch)
    lowered_.transfers.push_back({request.direction, request.peer, bytes_of(request)});
}

// Mostly sends and receives lie in two areas.
bool TransferBatch::overlaps() const {
  struct Area {
    device::u64 begin = ~device::u64{0};
    device::u64 end = 0;
    bool meets(const Area& other) const { return begin < other.end && other.begin < end; }
  };
  const auto sent = [](const device::Chunk& chunk) {
    const bool receives = (chunk.flags & device::kPostedPart) != 0;
    return receives ? Area{} : Area{chunk.input_offset, chunk.input_offset + chunk.elements};
  };
  const auto received = [](const device::Chunk& chunk) {
    return chunk.output_offset == 0 ? Area{} : Area{chunk.output_offset, chunk.output_offset + chunk.elements};
  };
  const auto all = [&](auto&& area_of) {
    Area hull;
    for (const device::Chunk& chunk : chunks_) {
      const Area area = area_of(chunk);
      hull = {std::min(hull.begin, area.begin), std::max(hull.end, area.end)};
    }
    return hull;
  };
  if (!all(sent).meets(all(received))) return false;
  return std::any_of(chunks_.begin(), chunks_.end(), [&](const device::Chunk& one) {
    return std::any_of(chunks_.begin(), chunks_.end(),
                       [&](const device::Chunk& other) { return sent(one).meets(received(other)); });
  });
}

schedule::Lane& TransferBatch::lane_of(schedule::Direction direction, Rank peer) {
  const schedule::Connection wanted{direction, peer};
  const auto found = std::find(transfers_.connections.begin(), transfers_.connections.end(), wanted);
  const auto index = static_cast<std::size_t>(found - transfers_.connections.begin());
  if (found == transfers_.connections.end()) {
    transfers_.connections.push_back(wanted);
    transfers_.lanes.push_back({schedule::LaneOrder::op_major, {}});
  }
  return transfers_.lanes[index];
}

void TransferBatch::append(const PointToPointRequest& request, bool direct) {
  const std::size_t bytes = bytes_of(request);
  const auto chunk = static_cast<ChunkId>(chunks_.size());
  most_bytes_ = std::max(most_bytes_, bytes);
  all_bytes_ += bytes;
  // A transfer of no bytes also synchronizes both ranks: the sender posts and the receiver releases.
  const bool rendezvous = bytes == 0 || (direct && bytes >= kDirectTransferBytes);
  const bool sends = request.direction == Direction::send;
  chunks_.push_back({0, 0, bytes, transfer_hash(bytes), sends ? device::u32{0} : device::u32{device::kPostedPart}});
  place(chunks_.back(), request);
  if (sends) {
    append_sending(lane_of(schedule::Direction::outgoing, request.peer), chunk, rendezvous);
  } else {
    append_receiving(lane_of(schedule::Direction::incoming, request.peer), chunk, rendezvous);
  }
}

void TransferBatch::append_sending(schedule::Lane& lane, ChunkId chunk, bool rendezvous) {
  const int connection = static_cast<int>(&lane - transfers_.lanes.data());
  const schedule::Place data{Buffer::input, chunk};
  if (rendezvous) {
    lane.ops.push_back(control(OpKind::post, {Via::slot, connection, data}, chunk, false));
    lane.ops.push_back(control(OpKind::drain, {Via::slot, connection, {}}, chunk, false));
  } else {
    lane.ops.push_back(move({Via::local, -1, data}, {Via::slot, connection, {}}, chunk));
  }
}

void TransferBatch::append_receiving(schedule::Lane& lane, ChunkId chunk, bool rendezvous) {
  const int connection = static_cast<int>(&lane - transfers_.lanes.data());
  const Access target{Via::local, -1, {Buffer::output, chunk}};
  if (rendezvous) {
    lane.ops.push_back(move({Via::remote, connection, {Buffer::input, chunk}}, target, chunk));
    lane.ops.push_back(control(OpKind::release, {Via::slot, connection, {}}, chunk, true));
  } else {
    lane.ops.push_back(move({Via::slot, connection, {}}, target, chunk));
  }
}

void TransferBatch::pair_own(std::span<const PointToPointRequest> batch, Rank rank) {
  std::vector<const PointToPointRequest*> sends;
  std::vector<const PointToPointRequest*> receives;
  for (const PointToPointRequest& request : batch)
    if (request.peer == rank) (request.direction == Direction::send ? sends : receives).push_back(&request);
  if (sends.empty() && receives.empty()) return;
  if (sends.size() != receives.size())
    fail(ErrorCode::invalid_usage,
         "rank {} sends {} times to itself and receives {} times from itself in one group: put each transfer to self "
         "and its twin into the same group",
         rank, sends.size(), receives.size());
  schedule::Lane lane{schedule::LaneOrder::op_major, {}};
  for (std::size_t i = 0; i < sends.size(); ++i) {
    if (bytes_of(*sends[i]) != bytes_of(*receives[i]))
      fail(ErrorCode::invalid_usage, "rank {} sends {} bytes to itself but receives {}: make the sizes equal", rank,
           bytes_of(*sends[i]), bytes_of(*receives[i]));
    const auto chunk = static_cast<ChunkId>(chunks_.size());
    chunks_.push_back({reinterpret_cast<device::u64>(sends[i]->buffer),
                       reinterpret_cast<device::u64>(receives[i]->buffer), bytes_of(*sends[i]), 0, 0});
    most_bytes_ = std::max(most_bytes_, bytes_of(*sends[i]));
    lane.ops.push_back(
        move({Via::local, -1, {Buffer::input, chunk}}, {Via::local, -1, {Buffer::output, chunk}}, chunk));
  }
  transfers_.lanes.push_back(std::move(lane));
}

}  // namespace sccl::runtime
