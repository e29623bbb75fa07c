#include "runtime/gpu/stream/stream_order.h"

#include <algorithm>

#include "base/error.h"
#include "base/lane_order.h"

namespace sccl::runtime {
namespace {

using schedule::Access;
using schedule::Via;

// Plays the lanes of all ranks, one operation of each lane in turn.
class Play {
 public:
  Play(const schedule::Program& program, Rank observed, std::uint64_t slices, int slots)
      : program_(program),
        observed_(observed),
        slices_(slices),
        slots_(static_cast<std::uint64_t>(slots)),
        ranks_(program.ranks.size()),
        sent_(ranks_ * ranks_),
        received_(ranks_ * ranks_) {
    for (const schedule::RankProgram& rank : program.ranks) lanes_.emplace_back(rank.lanes.size());
  }

  std::vector<StreamTurn> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < ranks_; ++rank)
        for (std::size_t lane = 0; lane < lanes_[rank].size(); ++lane) moved = step(rank, lane) || moved;
    }
    for (std::size_t rank = 0; rank < ranks_; ++rank)
      for (std::size_t lane = 0; lane < lanes_[rank].size(); ++lane)
        if (!ended(rank, lane))
          fail(ErrorCode::internal_error, "lane {} of rank {} cannot go on with {} slots a connection: report this",
               lane, rank, slots_);
    return std::move(order_);
  }

 private:
  struct Place {
    std::uint64_t slice = 0;
    std::uint32_t op = 0;
    std::uint64_t finished = 0;
  };

  const schedule::Lane& lane_of(std::size_t rank, std::size_t lane) const { return program_.ranks[rank].lanes[lane]; }
  bool ended(std::size_t rank, std::size_t lane) const {
    return is_lane_through(lanes_[rank][lane], true, lane_of(rank, lane).ops.size(), slices_);
  }
  std::size_t peer_of(std::size_t rank, const Access& access) const {
    return static_cast<std::size_t>(program_.ranks[rank].connections[static_cast<std::size_t>(access.connection)].peer);
  }
  std::size_t link(std::size_t from, std::size_t to) const { return from * ranks_ + to; }

  bool ready(std::size_t rank, const schedule::Op& op, std::uint64_t slice) const {
    for (const schedule::Dependency& wait : op.dependencies) {
      const auto lane = static_cast<std::size_t>(wait.lane);
      if (lanes_[rank][lane].finished <
          operations_awaited<std::uint64_t>(slice, static_cast<std::uint64_t>(wait.distance),
                                            lane_of(rank, lane).ops.size(), static_cast<std::uint64_t>(wait.op)))
        return false;
    }
    for (const Access& operand : op.operands)
      if (operand.via == Via::slot &&
          sent_[link(peer_of(rank, operand), rank)] == received_[link(peer_of(rank, operand), rank)])
        return false;
    return std::all_of(op.destinations.begin(), op.destinations.end(), [&](const Access& destination) {
      const std::size_t at = link(rank, destination.via == Via::slot ? peer_of(rank, destination) : rank);
      return destination.via != Via::slot || sent_[at] - received_[at] < slots_;
    });
  }

  bool step(std::size_t rank, std::size_t index) {
    if (ended(rank, index)) return false;
    const schedule::Lane& lane = lane_of(rank, index);
    Place& place = lanes_[rank][index];
    const schedule::Op& op = lane.ops[place.op];
    if (!ready(rank, op, place.slice)) return false;
    for (const Access& operand : op.operands)
      if (operand.via == Via::slot) ++received_[link(peer_of(rank, operand), rank)];
    for (const Access& destination : op.destinations)
      if (destination.via == Via::slot) ++sent_[link(rank, peer_of(rank, destination))];
    if (rank == static_cast<std::size_t>(observed_))
      order_.push_back({static_cast<std::uint32_t>(index), place.op, place.slice});
    pass_operation(place, true, lane.ops.size(), [] { return false; });
    return true;
  }

  const schedule::Program& program_;
  Rank observed_;
  std::uint64_t slices_;
  std::uint64_t slots_;
  std::size_t ranks_;
  std::vector<std::uint64_t> sent_, received_;  // by link
  std::vector<std::vector<Place>> lanes_;
  std::vector<StreamTurn> order_;
};

bool is_message(const device::Program& program, const device::Op& op) {
  if (op.kind == device::OpKind::post || op.kind == device::OpKind::release) return true;
  const auto through_slot = [](const device::Access& access) { return access.via == device::Via::slot; };
  return op.kind == device::OpKind::move &&
         (std::any_of(program.operands + op.operand_begin, program.operands + op.operand_begin + op.operand_count,
                      through_slot) ||
          std::any_of(program.destinations + op.destination_begin,
                      program.destinations + op.destination_begin + op.destination_count, through_slot));
}

// The lane's turns, without operations that do nothing.
std::vector<StreamTurn> turns_of(const device::Program& program, std::uint32_t index, const device::Chunk* chunks,
                                 std::uint64_t slice_elements) {
  std::vector<StreamTurn> turns;
  const device::Lane& lane = program.lanes[index];
  for (std::uint32_t op = 0; op < lane.op_count; ++op) {
    const device::Op& what = program.ops[lane.op_begin + op];
    if (what.kind == device::OpKind::drain) continue;
    const std::uint64_t elements = chunks[what.chunk].elements;
    const std::uint64_t slices =
        what.kind == device::OpKind::move ? (elements + slice_elements - 1) / slice_elements : 1;
    for (std::uint64_t slice = 0; slice < slices; ++slice) turns.push_back({index, op, slice});
  }
  return turns;
}

}  // namespace

std::vector<StreamTurn> order_collective(const schedule::Program& program, Rank rank, std::uint64_t slices, int slots) {
  return Play(program, rank, slices, slots).run();
}

std::vector<StreamTurn> order_transfers(const device::Program& program, const device::Chunk* chunks,
                                        std::uint64_t slice_elements) {
  std::vector<std::vector<StreamTurn>> outgoing, incoming;
  std::vector<StreamTurn> order;
  for (std::uint32_t index = 0; index < program.lane_count; ++index) {
    std::vector<StreamTurn> turns = turns_of(program, index, chunks, slice_elements);
    if (turns.empty()) continue;
    const device::Op& first = program.ops[program.lanes[index].op_begin + turns.front().op];
    if (!is_message(program, first)) {
      order.insert(order.end(), turns.begin(), turns.end());  // from the rank to itself
      continue;
    }
    const bool sends =
        first.destination_count > 0 && program.destinations[first.destination_begin].via == device::Via::slot;
    (sends ? outgoing : incoming).push_back(std::move(turns));
  }
  const auto append = [&](const std::vector<std::vector<StreamTurn>>& lanes, std::size_t round) {
    bool any = false;
    for (const auto& turns : lanes)
      if (round < turns.size()) {
        order.push_back(turns[round]);
        any = true;
      }
    return any;
  };
  for (std::size_t round = 0;; ++round) {
    const bool sent = append(outgoing, round);
    const bool received = append(incoming, round);
    if (!sent && !received) return order;
  }
}

}  // namespace sccl::runtime
