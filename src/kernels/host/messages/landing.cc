#include "kernels/host/messages/landing.h"

#include <algorithm>

#include "kernels/host/messages/connection.h"
#include "kernels/host/reduce/reduce_copy.h"

namespace sccl::kernels {

using device::Access;
using device::Lane;
using device::Op;
using device::OpKind;
using device::u64;
using device::u8;

void Landing::begin(const Receiver& receiver, u64 position) {
  const std::lock_guard lock(mutex_);
  receiver_ = receiver;
  state_ = {};
  next_ = position;
  open_ = true;
}

void Landing::end() {
  const std::lock_guard lock(mutex_);
  open_ = false;
  place_ = nullptr;
}

u8* Landing::store(const Part& part) {
  if (part.bytes < kLeastBytes) return nullptr;
  const std::lock_guard lock(mutex_);
  if (part.offset == 0) place_ = open_ ? place_of(part) : nullptr;
  if (place_ != nullptr && !part.payload.empty()) copy(part);
  return place_;
}

void Landing::copy(const Part& part) const {
  const Operand from{part.payload.data(), 0};
  void* const to = place_ + part.offset;
  ReduceCopy work{DataType::int8, {}, &from, 1, false, 1, &to, 1, part.payload.size()};
  work.streamed = receiver_.stores == Stores::past_caches ? 1 : 0;
  reduce_copy(work);
}

u8* Landing::place_of(const Part& message) {
  if (!find(message.position)) return nullptr;
  const Op& by = op();
  if (by.kind != OpKind::move || by.operand_count != 1 || by.destination_count != 1) return nullptr;
  const device::Call& call = *receiver_.call;
  const Access& from = receiver_.program->operands[by.operand_begin];
  const Access& to = receiver_.program->destinations[by.destination_begin];
  const bool copies = from.via == device::Via::slot && to.via == device::Via::local &&
                      to.buffer == device::Buffer::output && !(by.completes && call.divisor > 1);
  const bool awaited = message.bytes == elements() * call.element_bytes &&
                       message.signature == (call.signature ^ call.chunks[by.chunk].tag);
  if (!copies || !awaited) return nullptr;
  const u64 offset = call.chunks[to.index].output_offset + state_.slice * call.slice_elements;
  return reinterpret_cast<u8*>(reinterpret_cast<u64>(call.output) + offset * call.element_bytes);
}

// Goes on to the operation that takes this message. False if there is none.
bool Landing::find(u64 position) {
  const Lane& lane = receiver_.program->lanes[receiver_.lane];
  const bool slice_major = lane.order == device::LaneOrder::slice_major;
  for (; !is_lane_through(state_, slice_major, lane.op_count, receiver_.call->slice_count); pass()) {
    if (!takes_message()) continue;
    if (next_ == position) return true;
    ++next_;
  }
  return false;
}

const Op& Landing::op() const {
  const device::Program& program = *receiver_.program;
  return program.ops[program.lanes[receiver_.lane].op_begin + state_.op];
}

// As in Interpreter::slice_elements.
u64 Landing::elements() const {
  const u64 begin = state_.slice * receiver_.call->slice_elements;
  const u64 total = receiver_.call->chunks[op().chunk].elements;
  return begin >= total ? 0 : std::min(total - begin, receiver_.call->slice_elements);
}

bool Landing::takes_message() const {
  const Op& by = op();
  if (by.kind == OpKind::post || by.kind == OpKind::drain) return false;
  const bool acts =
      by.kind == OpKind::move ? elements() > 0 : (receiver_.call->chunks[by.chunk].flags & device::kAbsent) == 0;
  const std::span operands(receiver_.program->operands + by.operand_begin, by.operand_count);
  return acts && std::any_of(operands.begin(), operands.end(), [&](const Access& access) {
           return access.via == device::Via::slot && access.connection == receiver_.connection;
         });
}

void Landing::pass() {
  const device::Call& call = *receiver_.call;
  const Lane& lane = receiver_.program->lanes[receiver_.lane];
  const Op& by = op();
  pass_operation(state_, lane.order == device::LaneOrder::slice_major, lane.op_count, [&] {
    return by.kind != OpKind::move || (state_.slice + 1) * call.slice_elements >= call.chunks[by.chunk].elements;
  });
}

std::vector<Landing*> begin_landings(const device::Program& program, const device::Call& call,
                                     std::span<const HostConnection> connections, Landing::Stores stores) {
  std::vector<Landing*> begun;
  const auto begin = [&](device::u32 lane, int number) {
    const HostConnection& from = connections[static_cast<std::size_t>(number)];
    if (from.landing == nullptr || std::count(begun.begin(), begun.end(), from.landing) > 0) return;
    from.landing->begin({&program, &call, lane, number, stores}, from.position);
    begun.push_back(from.landing);
  };
  for (device::u32 number = 0; number < program.lane_count; ++number) {
    const Lane& lane = program.lanes[number];
    for (const Op& op : std::span(program.ops + lane.op_begin, lane.op_count))
      for (const Access& access : std::span(program.operands + op.operand_begin, op.operand_count))
        if (access.via == device::Via::slot) begin(number, access.connection);
  }
  return begun;
}

void end_landings(std::span<const HostConnection> connections) {
  for (const HostConnection& from : connections)
    if (from.landing != nullptr) from.landing->end();
}

}  // namespace sccl::kernels
