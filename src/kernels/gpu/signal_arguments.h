// What the host hands to the kernel that sends signals and arms waits for them. Plain data for both sides.
#pragma once

#include "kernels/gpu/arguments.h"

namespace sccl::device::gpu {

// What a sender finds beside its counters at the receiver, whose stream waits: for which signal, and until which count.
struct SignalGate {
  u64 awaited;  // 1 + the signal's number in the high bits, the count in the low ones; 0: none
  u64 open;     // 1: the stream may pass; it waits for the low half
};

inline constexpr u32 kCountBits = 48;

enum class SignalStep : u32 { send, arm, confirm };

struct GateSignal {
  u64* arrived;  // the receiver's counter
  u64* counted;  // what this rank has sent, or used up
  SignalGate* gate;
  u64 number;  // 1 + the signal's
  u64 count;   // to be used up
};

struct SignalArguments {
  SignalStep step;
  u32 count;            // of signals; of one peer one at most
  const u64* stopping;  // not zero: nothing may be sent any more
  GateSignal signals[kMostWaits];
};
static_assert(sizeof(SignalArguments) <= 4096);

}  // namespace sccl::device::gpu
