// How simulations in tests move data: as the library does, in slices of at most so many bytes.
#pragma once

#include "schedule/simulation/simulate.h"

namespace sccl_test {

inline sccl::schedule::SimulationOptions moved_in_slices(double bytes, double slice_bytes) {
  return {.bytes = bytes,
          .slice_bytes = slice_bytes,
          .slots = sccl::schedule::kSlots,
          .short_slots = sccl::schedule::kShortSlots,
          .network_slots = sccl::schedule::kShortSlots,
          .detail = sccl::schedule::Detail::totals};
}

// Long slices on several lanes at once, as devices move them.
inline sccl::schedule::SimulationOptions moved_in_lanes(double bytes, double slice_bytes) {
  sccl::schedule::SimulationOptions options = moved_in_slices(bytes, slice_bytes);
  options.lane_bytes = sccl::schedule::kLaneBytes;
  return options;
}

}  // namespace sccl_test
