// The lanes of a link, or of a shared set, that times tell apart.
//
// A lane is a topology's unit of bandwidth: that of its slowest NIC, perhaps. A device moves a slice over one of its
// channels, which pass data at a rate of their own. Where a link has many lanes that are slower than that, it is as
// fast as one of fewer, wider ones.
#pragma once

#include <algorithm>

namespace sccl::schedule {

inline constexpr double kChannelGbytesPerS = 12.5;
inline constexpr int kFewLanes = 8;  // these are links, or ports, of their own, however slow

// Of a link, or a shared set, of so many lanes, which carry so much together.
inline int channels_of(int lanes, double gbytes_per_s) {
  if (lanes <= kFewLanes || gbytes_per_s >= kChannelGbytesPerS * lanes) return lanes;
  return static_cast<int>(std::clamp(gbytes_per_s / kChannelGbytesPerS, 1.0, static_cast<double>(lanes)));
}

}  // namespace sccl::schedule
