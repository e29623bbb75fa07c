// Half of the time that is left for waiting, so that the other half is left to tell others of the outcome.
#pragma once

#include <chrono>
#include <limits>

#include "base/deadline.h"

namespace sccl::runtime {

inline Deadline first_half(Deadline whole) {
  if (whole.is_never()) return whole;
  return Deadline::in(std::chrono::milliseconds(whole.remaining_ms(std::numeric_limits<int>::max()) / 2));
}

}  // namespace sccl::runtime
