#include "runtime/host/lanes/lane_progress.h"

#include <algorithm>
#include <array>

#include "platform/host/fences.h"

namespace sccl::runtime {
namespace {

using device::Outcome;
using device::u32;
using device::u64;
using device::u8;
using SlotMessages = device::Slots<kernels::HostTarget>;
using InlineMessages = kernels::HostTarget::Ll;

}  // namespace

LaneProgress::LaneProgress(const Membership& membership)
    : withdrawal_(membership.control.withdrawal()), health_(membership.control.health()) {
  target_.set_heavy_sleepers(membership.process.heavy_fences);
  std::vector<u8*> bases;
  for (const Peer& peer : membership.peers)
    bases.push_back(peer.segment ? reinterpret_cast<u8*>(peer.segment->data()) : nullptr);
  target_.set_withdrawals(withdrawal_.words());
  target_.set_shared_memory(std::move(bases));
}

void LaneProgress::start(const Start& start) {
  const HostShape& shape = start.shape;
  program_ = start.program.view();
  call_ = &start.call;
  shape_ = &shape;
  connections_ = start.connections;
  if (start.new_geometry) {
    target_.reserve(shape.operands, shape.destinations, shape.bounce_bytes);
    if (start.short_by) short_call_.prepare(program_, start.call, connections_, *start.short_by);
  }
  if (shape.streams_everything)
    target_.stream_everything();
  else
    target_.stream_between(start.output, static_cast<const u8*>(start.output) + shape.streamed_bytes);
  const bool runs_short = start.short_by && short_call_.ready() && !start.call.scaled && start.call.divisor <= 1;
  step_ = runs_short                                        ? &LaneProgress::step_short
          : start.call.protocol == device::Protocol::simple ? &LaneProgress::step_interpreted<SlotMessages>
                                                            : &LaneProgress::step_interpreted<InlineMessages>;
  show_buffers();
  target_.drop_held();
  lead_ = LaneLead(shape.between_hosts);
  lanes_.assign(start.program.lane_count(), kFirstStep);
  unfinished_lanes_ = lanes_.size();
  ended_.reset();
}

Progress LaneProgress::step_short() {
  target_.awaits_anything();
  const kernels::ShortCall::Turn turn = short_call_.run(lanes_, *call_, target_);
  if (turn.mismatch) [[unlikely]]
    ends(Outcome::mismatch, turn.last_lane);
  return note({turn.operations, turn.unfinished});
}

template <class Wire>
Progress LaneProgress::step_interpreted() {
  InterpreterOf<Wire> interpreter(program_, *call_, connections_.data(), lanes_.data(), target_);
  return note(shape_->moves_together ? step_together(interpreter) : step_lanes(interpreter));
}

inline Progress LaneProgress::note(Turn turn) {
  const bool moved = turn.operations > 0 || turn.unfinished < unfinished_lanes_;
  unfinished_lanes_ = turn.unfinished;
  if (turn.unfinished == 0) return Progress::done;
  if (turn.unfinished > 1) target_.awaits_anything();
  return moved ? Progress::moved : Progress::idle;
}

template <class Interpreter>
LaneProgress::Turn LaneProgress::step_lanes(Interpreter& interpreter) {
  Turn turn;
  for (u32 lane = 0; lane < lanes_.size(); ++lane) {
    target_.awaits_anything();
    Outcome outcome;
    do {
      outcome = step_lane(interpreter, lane);
      if (outcome == Outcome::progressed) ++turn.operations;
    } while (outcome == Outcome::progressed && !shape_->lanes_in_turn);
    if (outcome != Outcome::finished) ++turn.unfinished;
    if (ends(outcome, lane)) break;
  }
  return turn;
}

// Executes one operation of each lane that can go on, and moves the data of these lanes in one loop.
template <class Interpreter>
LaneProgress::Turn LaneProgress::step_together(Interpreter& interpreter) {
  Turn turn;
  std::array<std::pair<u32, device::Begun>, kernels::HostTarget::kMostHeld> begun;
  std::size_t count = 0;
  const u64 slowest = slice_of_slowest_lane();
  const u64 slices = call_->slice_count;
  bool slowest_goes = false;
  const auto begin_those = [&](auto&& qualifies) {
    for (u32 lane = 0; lane < lanes_.size() && count < begun.size() && !ended_; ++lane) {
      const u64 slice = lanes_[lane].slice;
      if (!qualifies(slice)) continue;
      target_.awaits_anything();
      begun[count].first = lane;
      const Outcome outcome = interpreter.begin(lane, begun[count].second);
      if (ends(outcome, lane) || outcome != Outcome::progressed) continue;
      ++count;
      slowest_goes = slowest_goes || slice == slowest;
    }
  };
  target_.hold();
  begin_those([&](u64 slice) { return slice < slices && lead_.may_go(slice, slowest); });
  if (slowest_goes) begin_those([&](u64 slice) { return slice < slices && lead_.may_go_along(slice, slowest); });
  if (ended_) {
    target_.drop_held();
    return {0, unfinished_lanes_};
  }
  target_.move_held();
  for (std::size_t i = 0; i < count; ++i) interpreter.finish(begun[i].first, begun[i].second);
  turn.operations = count;
  lead_.note_turn(count > 0);
  turn.unfinished = static_cast<std::size_t>(
      std::count_if(lanes_.begin(), lanes_.end(), [&](const device::LaneState& lane) { return lane.slice < slices; }));
  return turn;
}

u64 LaneProgress::slice_of_slowest_lane() const {
  u64 slowest = call_->slice_count;
  for (const device::LaneState& lane : lanes_) slowest = std::min(slowest, lane.slice);
  return slowest;
}

bool LaneProgress::ends(Outcome outcome, std::size_t lane) {
  if (outcome == Outcome::mismatch)
    ended_ = End{outcome, lanes_[lane].blocked_on_peer, 0};
  else if (outcome == Outcome::failed)
    ended_ = End{outcome, target_.failed_peer(), target_.error()};
  return ended_.has_value();
}

template <class Interpreter>
Outcome LaneProgress::step_lane(Interpreter& interpreter, std::size_t lane) {
  if (!shape_->touches_peers) return interpreter.step(static_cast<u32>(lane));
  Rank gone = withdrawal_.touch();
  Outcome outcome = Outcome::blocked;
  if (gone < 0) {
    device::Begun begun{};
    outcome = interpreter.begin(static_cast<u32>(lane), begun);
    if (outcome == Outcome::progressed) {
      // The data may be what its owner wrote after it withdrew: then no rank may learn that this operation is done.
      host::acquire_fence();
      gone = withdrawal_.withdrawn();
      if (gone < 0) outcome = interpreter.finish(static_cast<u32>(lane), begun);
    }
  }
  withdrawal_.release();
  if (gone < 0) return outcome;
  note_withdrawal(gone);
  return Outcome::blocked;
}

// A revoked rank publishes no fault. Its presence changes a moment before or after it withdraws.
void LaneProgress::note_withdrawal(Rank peer) {
  health_.check_fault(peer);
  if (health_.presence(peer) != Presence::present) ended_ = End{Outcome::blocked, peer, 0};
}

// A lane that is held back, ahead of the slowest lane, is not listed: the message that it lacked at its last try may
// have arrived since.
std::vector<LaneWait> LaneProgress::waits() const {
  std::vector<LaneWait> found;
  const bool holds_back = shape_ != nullptr && shape_->moves_together && !lead_.lanes_go_alone();
  const u64 last = holds_back ? slice_of_slowest_lane() : ~u64{0};
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
    if (lanes_[lane].blocked_on_peer >= 0 && lanes_[lane].slice <= last) found.push_back(wait_of(lane));
  return found;
}

// The slot belongs to the first connection with the peer in the lane's current operation. Only `simple` has slots.
LaneWait LaneProgress::wait_of(std::size_t lane) const {
  const device::LaneState& state = lanes_[lane];
  LaneWait wait{static_cast<u32>(lane), state.op, state.blocked_on_peer, LaneWait::kNoSlot};
  if (call_->protocol != device::Protocol::simple) return wait;
  const device::Lane& of = program_.lanes[lane];
  if (state.op >= of.op_count) return wait;
  const device::Op& op = program_.ops[of.op_begin + state.op];
  const u64 moved = op.kind == device::OpKind::move ? device::slice_elements(*call_, op, state.slice) : 0;
  const auto look = [&](const device::Access& access) {
    if (access.via == device::Via::local) return false;
    const kernels::HostConnection& connection = connections_[static_cast<std::size_t>(access.connection)];
    if (connection.peer != wait.peer) return false;
    const u64 bytes = access.via == device::Via::slot ? moved * call_->element_bytes : 0;
    wait.slot = kernels::slot_number(connection, connection.position, bytes);
    return true;
  };
  for (u32 i = 0; i < op.operand_count; ++i)
    if (look(program_.operands[op.operand_begin + i])) return wait;
  for (u32 i = 0; i < op.destination_count; ++i)
    if (look(program_.destinations[op.destination_begin + i])) return wait;
  return wait;
}

}  // namespace sccl::runtime
