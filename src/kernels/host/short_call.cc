#include "kernels/host/short_call.h"

#include <algorithm>
#include <cstring>

#include "kernels/host/messages/landing.h"

namespace sccl::kernels {
namespace {

using device::Access;
using device::Buffer;
using device::LaneState;
using device::Op;
using device::Outcome;
using device::Via;

using InLines = InlineMessages<HostTarget>;
using InSlots = device::Slots<HostTarget>;

// False as soon as `holds` returns false for an operation.
template <typename Function>
bool for_each_op(const device::Program& program, Function&& holds) {
  for (const device::Lane& lane : std::span(program.lanes, program.lane_count))
    for (const Op& op : std::span(program.ops + lane.op_begin, lane.op_count))
      if (!holds(op)) return false;
  return true;
}

}  // namespace

// Longer payloads in slots may stay in buffers, or come into results (Landing).
bool ShortCall::fits(const device::Program& program, const device::Call& call, Carrier carrier) {
  static_assert(HostTarget::kLeastShownBytes <= Landing::kLeastBytes);
  const bool in_slots = carrier == Carrier::slots;
  if (call.protocol != (in_slots ? device::Protocol::simple : device::Protocol::ll) || call.lends_slots) return false;
  if (call.slice_count != 1 || call.scaled || call.divisor > 1) return false;
  return for_each_op(program, [&](const Op& op) {
    const auto reaches_peers = [](const Access& access) { return access.via == Via::remote; };
    const std::span operands(program.operands + op.operand_begin, op.operand_count);
    const std::span destinations(program.destinations + op.destination_begin, op.destination_count);
    if (in_slots && call.chunks[op.chunk].elements * call.element_bytes >= HostTarget::kLeastShownBytes) return false;
    return op.kind == device::OpKind::move && std::none_of(operands.begin(), operands.end(), reaches_peers) &&
           std::none_of(destinations.begin(), destinations.end(), reaches_peers);
  });
}

device::u64 ShortCall::offset_bytes(Buffer buffer, u32 index, const device::Call& call) {
  if (buffer == Buffer::scratch) return index * call.scratch_slot_bytes;
  const device::Chunk& chunk = call.chunks[index];
  return (buffer == Buffer::input ? chunk.input_offset : chunk.output_offset) * call.element_bytes;
}

void ShortCall::take_places(const device::Call& call) {
  if (!ready_) return;
  for (Place& place : places_)
    if (place.connection == nullptr) place.offset_bytes = offset_bytes(place.buffer, place.index, call);
}

// Spans point into the vectors, so the vectors reserve all room first.
void ShortCall::make_room(const device::Program& program) {
  std::size_t places = 0;
  std::size_t waits = 0;
  std::size_t moves = 0;
  for_each_op(program, [&](const Op& op) {
    places += op.operand_count + op.destination_count;
    waits += op.dependency_count;
    ++moves;
    return true;
  });
  places_.clear();
  places_.reserve(places);
  waits_.clear();
  waits_.reserve(waits);
  moves_.clear();
  moves_.reserve(moves);
  lanes_.clear();
}

bool ShortCall::prepare(const device::Program& program, const device::Call& call, std::span<HostConnection> connections,
                        Carrier carrier) {
  carrier_ = carrier;
  ready_ = fits(program, call, carrier);
  if (!ready_) return false;
  make_room(program);
  for (u32 lane = 0; lane < program.lane_count; ++lane) {
    const std::size_t first = moves_.size();
    for (u32 i = 0; i < program.lanes[lane].op_count; ++i)
      moves_.push_back(move_of(program, program.ops[program.lanes[lane].op_begin + i], call, connections));
    lanes_.push_back({moves_.data() + first, moves_.size() - first});
  }
  return true;
}

ShortCall::Move ShortCall::move_of(const device::Program& program, const Op& op, const device::Call& call,
                                   std::span<HostConnection> connections) {
  const auto append = [&](const Access* accesses, u32 count) -> std::span<const Place> {
    const std::size_t begin = places_.size();
    for (const Access& access : std::span(accesses, count)) {
      const bool is_local = access.via == Via::local;
      places_.push_back({is_local ? nullptr : &connections[static_cast<std::size_t>(access.connection)], access.buffer,
                         is_local ? offset_bytes(access.buffer, access.index, call) : 0, access.index});
    }
    return {places_.data() + begin, count};
  };
  const device::Chunk& chunk = call.chunks[op.chunk];
  Move move{};
  move.elements = chunk.elements;
  move.bytes = chunk.elements * call.element_bytes;
  move.tag = chunk.tag;
  move.copies = op.operand_count == 1;
  const std::size_t first_wait = waits_.size();
  for (const device::Dependency& wait : std::span(program.dependencies + op.dependency_begin, op.dependency_count))
    if (const u32 awaited = operations_awaited<u32>(0, wait.distance, program.lanes[wait.lane].op_count, wait.op);
        awaited > 0)
      waits_.push_back({wait.lane, awaited});
  move.waits = {waits_.data() + first_wait, waits_.size() - first_wait};
  // An operation without elements only takes its place in the order.
  if (move.elements == 0) return move;
  move.operands = append(program.operands + op.operand_begin, op.operand_count);
  move.destinations = append(program.destinations + op.destination_begin, op.destination_count);
  return move;
}

template <class Messages>
inline Outcome ShortCall::readiness(const Move& move, std::span<const LaneState> states, LaneState& state,
                                    u32 signature, HostTarget& target) {
  for (const Wait& wait : move.waits)
    if (states[wait.lane].finished < wait.operations) {
      state.blocked_on_peer = -1;
      return Outcome::blocked;
    }
  for (const Place& place : move.operands) {
    if (place.connection == nullptr) continue;
    HostConnection& connection = *place.connection;
    const device::u64* const word = Messages::word(connection);
    const device::Sight sight = Messages::sight(connection, HostTarget::load_polled(word), signature);
    if (sight == device::Sight::absent) {
      target.awaits(word, Messages::kFlagShift, Messages::flag(connection, signature),
                    Messages::kLends ? static_cast<const void*>(Messages::payload(connection, move.bytes)) : word);
      state.blocked_on_peer = connection.peer;
      return Outcome::blocked;
    }
    if (sight == device::Sight::of_another_call) {
      state.blocked_on_peer = connection.peer;
      return Outcome::mismatch;
    }
  }
  for (const Place& place : move.destinations)
    if (place.connection != nullptr && !Messages::has_room(*place.connection, move.bytes)) {
      state.blocked_on_peer = place.connection->peer;
      return Outcome::blocked;
    }
  return Outcome::progressed;
}

// A copy onto its own source is left out: other lanes read the data there. Addresses are computed as integers: the
// buffers of Send and Recv are unrelated objects behind one base of zero.
template <class Messages>
inline void ShortCall::carry_out(const Move& move, const device::Call& call, HostTarget& target) {
  const auto address = [&](const Place& place) -> u8* {
    if (place.connection != nullptr) return Messages::payload(*place.connection, move.bytes);
    const u8* const base = place.buffer == Buffer::input    ? call.input
                           : place.buffer == Buffer::output ? call.output
                                                            : call.scratch;
    return reinterpret_cast<u8*>(reinterpret_cast<u64>(base) + place.offset_bytes);
  };
  if (move.copies && move.bytes < kShortCopyBytes) {
    const u8* const from = address(move.operands.front());
    for (const Place& place : move.destinations)
      if (u8* const to = address(place); to != from) std::memcpy(to, from, move.bytes);
    return;
  }
  u32 count = 0;
  for (const Place& place : move.operands) target.sources()[count++] = {address(place), 0};
  u32 sinks = 0;
  for (const Place& place : move.destinations)
    if (u8* const to = address(place); !(move.copies && to == target.sources()[0].data)) {
      if (place.connection != nullptr) target.fills_slot(sinks, *place.connection);
      target.sinks()[sinks++] = to;
    }
  target.reduce_copy(call, target.sources(), count, false, target.sinks(), sinks, move.elements, 1);
}

template <class Messages>
inline void ShortCall::tell_peers(const Move& move, u32 signature, HostTarget& target) {
  for (const Place& place : move.destinations) {
    if (place.connection == nullptr) continue;
    if constexpr (Messages::kLends) Messages::header(*place.connection).lent = 0;  // the payload is in the slot
    Messages::publish(*place.connection, signature, move.bytes);
  }
  for (const Place& place : move.operands)
    if (place.connection != nullptr) Messages::consume(*place.connection, move.bytes);
  target.fence();
  for (const Place& place : move.destinations)
    if (place.connection != nullptr) target.ring_after_fence(*place.connection);
  for (const Place& place : move.operands)
    if (place.connection != nullptr) target.ring_after_fence(*place.connection);
}

ShortCall::Turn ShortCall::run(std::span<LaneState> states, const device::Call& call, HostTarget& target) const {
  return carrier_ == Carrier::lines ? run_lanes<InLines>(states, call, target)
                                    : run_lanes<InSlots>(states, call, target);
}

template <class Messages>
inline ShortCall::Turn ShortCall::run_lanes(std::span<LaneState> states, const device::Call& call,
                                            HostTarget& target) const {
  Turn turn;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    LaneState& state = states[lane];
    const std::span<const Move> moves = lanes_[lane];
    while (state.op < moves.size()) {
      const Move& move = moves[state.op];
      const u32 signature = call.signature ^ move.tag;
      if (const Outcome ready = readiness<Messages>(move, states, state, signature, target);
          ready != Outcome::progressed) {
        ++turn.unfinished;
        turn.last_lane = lane;
        turn.mismatch = ready == Outcome::mismatch;
        break;
      }
      if (move.elements > 0) {
        carry_out<Messages>(move, call, target);
        tell_peers<Messages>(move, signature, target);
      }
      state.blocked_on_peer = -1;
      ++state.op;
      ++state.finished;
      ++turn.operations;
    }
    if (turn.mismatch) [[unlikely]]
      break;
  }
  return turn;
}

}  // namespace sccl::kernels
