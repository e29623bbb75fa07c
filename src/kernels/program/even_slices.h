// Slices of equal length. A last one of a few bytes would take a slot, and a latency, as a whole one does: an AllGather
// whose chunks are 7 % longer than a slot takes 1.13 of its bound in one whole slice and the rest, 1.06 in two halves.
#pragma once

#include <algorithm>

#include "kernels/device/program.h"

namespace sccl::kernels {

// The elements of a slice, at most `most`, so that `longest` elements are as few slices as they can be. Slices begin at
// multiples of device::kPartUnitBytes, as far as `most` allows. All ranks cut alike: `longest` is that of all chunks.
inline device::u64 even_slice(device::u64 longest, device::u64 most, device::u64 element_bytes) {
  if (longest <= most) return most;
  const device::u64 slices = (longest + most - 1) / most;
  const device::u64 unit = device::kPartUnitBytes / element_bytes;
  const device::u64 even = (longest + slices - 1) / slices;
  return std::min(most, (even + unit - 1) / unit * unit);
}

}  // namespace sccl::kernels
