// How a lane goes through its operations, and what an operation waits for in other lanes of its rank. Said once for all
// that run or play programs: the interpreter, short calls, the order on streams, the symbolic check of programs and the
// simulation of programs. Device code includes it, so it includes nothing.
//
// A lane repeats its operations for every slice (slice-major), or runs each operation over all slices before the next
// one (op-major). It counts the operations that it has finished, over all slices, in its own order. Lanes that others
// wait for are slice-major, so this count tells which operation of which slice is done.
//
// A `State` has the members slice, op and finished.
#pragma once

namespace sccl {

// The operations that a lane of `op_count` operations must have finished before an operation of slice `slice` may run
// that depends on its operation `op` of the slice `distance` earlier. 0: there is no such slice, so nothing is waited
// for.
template <class Count>
constexpr Count operations_awaited(Count slice, Count distance, Count op_count, Count op) {
  return slice < distance ? 0 : (slice - distance) * op_count + op + 1;
}

template <class State, class Count, class SliceCount>
constexpr bool is_lane_through(const State& state, bool slice_major, Count op_count, SliceCount slice_count) {
  return slice_major ? op_count == 0 || state.slice == slice_count : state.op == op_count;
}

// The operation that the lane is at has finished. `is_last_slice()` is asked of op-major lanes: whether the operation
// has no further slice.
template <class State, class Count, class Predicate>
constexpr void pass_operation(State& state, bool slice_major, Count op_count, Predicate&& is_last_slice) {
  ++state.finished;
  if (!slice_major) {
    if (is_last_slice()) {
      state.slice = 0;
      ++state.op;
    } else {
      ++state.slice;
    }
  } else if (++state.op == op_count) {
    state.op = 0;
    ++state.slice;
  }
}

}  // namespace sccl
