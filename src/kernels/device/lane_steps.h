// How a lane of a program goes through its operations and slices, for a call: lane_order.h, applied to chunks.
#pragma once

#include "base/lane_order.h"
#include "kernels/device/program.h"

namespace sccl::device {

// What a slice of the operation's chunk has; 0: the chunk has no such slice.
inline u64 slice_elements(const Call& call, const Op& op, u64 slice) {
  const u64 begin = slice * call.slice_elements;
  const u64 total = call.chunks[op.chunk].elements;
  if (begin >= total) return 0;
  return total - begin < call.slice_elements ? total - begin : call.slice_elements;
}

inline bool is_finished(const Call& call, const Lane& lane, const LaneState& state) {
  return is_lane_through(state, lane.order == LaneOrder::slice_major, lane.op_count, call.slice_count);
}

// The operation that the lane is at is done.
inline void advance(const Call& call, const Lane& lane, const Op& op, LaneState& state) {
  // An operation of an op-major lane runs only over the slices of its own chunk.
  pass_operation(state, lane.order == LaneOrder::slice_major, lane.op_count, [&] {
    return op.kind != OpKind::move || (state.slice + 1) * call.slice_elements >= call.chunks[op.chunk].elements;
  });
  state.blocked_on_peer = -1;
}

// The operations that the lane of `wait` must have finished.
inline u64 operations_needed(const Program& program, const Dependency& wait, u64 slice) {
  return operations_awaited<u64>(slice, wait.distance, program.lanes[wait.lane].op_count, wait.op);
}

}  // namespace sccl::device
