// What the host passes to the kernel that sends signals and arms waits for signals. Plain data for both sides.
#pragma once

#include "kernels/gpu/arguments.h"

namespace sccl::device::gpu {

// Lies beside the sender's counters at the receiver, whose stream waits. It tells the sender which signal the stream
// waits for, and until which count.
struct SignalGate {
  u64 awaited;  // 1 + the signal's number in the high bits, the count in the low ones; 0: none
  u64 open;     // 1: the stream may pass; it waits for the low half
};

inline constexpr u32 kCountBits = 48;

enum class SignalStep : u32 { send, arm, confirm };

struct GateSignal {
  u64* arrived;  // the receiver's counter
  u64* counted;  // number of signals that this rank has sent, or used up
  SignalGate* gate;
  u64 number;  // 1 + the signal's number
  u64 count;   // number of signals to use up
};

struct SignalArguments {
  SignalStep step;
  u32 count;            // number of signals; at most one for each peer
  const u64* stopping;  // not zero: no signal may be sent any more
  GateSignal signals[kMostWaits];
};
static_assert(sizeof(SignalArguments) <= 4096);

}  // namespace sccl::device::gpu
