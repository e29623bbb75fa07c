// From which buffers of a call payloads may go to other hosts as they lie there, without a copy into a slot.
//
// The engine reads a payload at any time until it has sent it, so nobody may write there before. The call itself may:
//
//   input    is written only where it is a part of the output. Collectives that compute write their sums there, so they
//            show the input only if both are apart. Others write to a rank's own place what is there already.
//   output   of a collective that does not compute is written once, before it is sent on. AlltoAll sends no results.
//   scratch  is used again and again: never.
//
// A call ends when all that it has shown was sent, or when its connections are closed (EngineUse).
//
// Likewise, payloads of other hosts may be stored in the output when they come (kernels/host/messages/landing.h),
// before it is the turn of the operation that would copy them there. Collectives that compute store sums in the output
// before. Others write each part of it once, and read it afterwards only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/types.h"
#include "kernels/host/messages/landing.h"
#include "kernels/host/target.h"

namespace sccl::runtime {

struct ShownBuffers {
  bool input = false;
  bool output = false;
  bool lands = false;     // payloads of other hosts may be stored in the output when they come
  bool may_meet = false;  // also if both share memory, as NCCL allows in this collective
  std::size_t input_bytes = 0;
  std::size_t output_bytes = 0;

  static ShownBuffers of(const CollectiveInfo& about, std::size_t input_bytes, std::size_t output_bytes) {
    const bool only_moves = !about.reduces && about.collective != Collective::alltoall;
    return {true, only_moves, !about.reduces, only_moves, input_bytes, output_bytes};
  }

  bool any() const { return input || output; }
  // Of a call with these buffers.
  kernels::HostTarget::Shown of_call(const void* from, const void* to) const {
    const bool may = may_meet || are_apart(from, to);
    return {input && may, output && may};
  }
  bool lands_in_call(const void* from, const void* to) const { return lands && (may_meet || are_apart(from, to)); }

 private:
  bool are_apart(const void* from, const void* to) const {
    const auto source = reinterpret_cast<std::uintptr_t>(from);
    const auto result = reinterpret_cast<std::uintptr_t>(to);
    return source + input_bytes <= result || result + output_bytes <= source;
  }
};

}  // namespace sccl::runtime
