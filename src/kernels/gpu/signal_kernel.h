// Signals for streams that wait instead of kernels (runtime/gpu/stream/stream_signals.h): short kernels of one thread
// that never wait. The counters are those of one_sided_kernel.h. A stream waits for one fixed value, also when it
// replays a graph, but counts advance. So the stream waits at a gate: a word beside the counters that is opened when
// the count has come:
//
//   receiver                                         sender
//   arm:     used += count                           send:  arrived = ++sent
//            open = 0; awaited = (signal, used)             ------ fence ------
//            ------ fence ------                            awaited is this signal, arrived >= its count: open = 1
//            arrived >= used: open = 1
//   stream waits until open == 1
//   confirm: arrived >= used: open = 1, else open = 0, fence, look again
//   stream waits until open == 1
//
// Both sides store, fence and look, so at least one of them sees the other's store, and the gate is always opened. A
// sender that read `awaited` before the arming may open the gate too early. A sender's kernels run one after another,
// so only one of them can be so late. The confirmation shuts the gate again, and the second wait is reliable: all later
// kernels read the new `awaited`. Each counter has one writer, so no atomic addition is needed, which a bus may lack.
#pragma once

#include "kernels/gpu/signal_arguments.h"
#include "kernels/gpu/target.h"

namespace sccl::device::gpu {

// Compares counts that lack their upper bits: two compared counts differ by at most half of the range.
inline bool has_come(u64 arrived, u64 wanted) { return ((arrived - wanted) & (1ull << (kCountBits - 1))) == 0; }

inline void open_if_come(const GateSignal& signal) {
  if (has_come(load_acquire_system(signal.arrived), *signal.counted)) store_release_system(&signal.gate->open, 1);
}

inline void send(const GateSignal& signal) {
  const u64 arrived = ++*signal.counted;
  store_release_system(signal.arrived, arrived);
  fence_system_total();
  const u64 awaited = load_acquire_system(&signal.gate->awaited);
  if (awaited >> kCountBits == signal.number && has_come(arrived, awaited)) store_release_system(&signal.gate->open, 1);
}

inline void arm(const GateSignal& signal) {
  const u64 wanted = *signal.counted += signal.count;
  store_relaxed_system(&signal.gate->open, 0);
  store_release_system(&signal.gate->awaited, signal.number << kCountBits | (wanted & ((1ull << kCountBits) - 1)));
  fence_system_total();
  open_if_come(signal);
}

inline void confirm(const GateSignal& signal) {
  if (!has_come(load_acquire_system(signal.arrived), *signal.counted)) {
    store_relaxed_system(&signal.gate->open, 0);
    fence_system_total();
  }
  open_if_come(signal);
}

inline void run_signals(const SignalArguments& arguments) {
  if (thread_index() != 0) return;
  if (arguments.step == SignalStep::send && load_acquire_system(arguments.stopping) != 0) return;
  SCCL_ROLLED for (u32 i = 0; i < arguments.count; ++i) switch (arguments.step) {
    case SignalStep::send:
      send(arguments.signals[i]);
      break;
    case SignalStep::arm:
      arm(arguments.signals[i]);
      break;
    case SignalStep::confirm:
      confirm(arguments.signals[i]);
      break;
  }
}

}  // namespace sccl::device::gpu

#define SCCL_GPU_SIGNAL_KERNEL(name)                                             \
  extern "C" SCCL_KERNEL void SCCL_MOST_THREADS(sccl::device::gpu::kMostThreads) \
      name(SCCL_GPU_PARAMETER sccl::device::gpu::SignalArguments a) {            \
    sccl::device::gpu::run_signals(a);                                           \
  }
