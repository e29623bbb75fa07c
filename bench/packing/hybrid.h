// NVLink and PCIe at once (Blink 3.4): two sets of trees, because a driver offers one kind of link at a time, and the
// division of the data that lets both end together.
#pragma once

#include <optional>

#include "schedule/schedule.h"
#include "treegen/graph/links.h"

namespace sccl::treegen {

// One kind of link: the figures of trees over it.
struct TreeSet {
  double gbytes_per_s = 0;
  double ready_after_us = 0;  // time to switch to these links first (Blink's T_dpa)
};

// Equation 8: the bytes for `slow`, which starts late; the rest goes to `fast`. Zero when `fast` alone ends before
// `slow` could begin.
double slow_share_bytes(double total_bytes, const TreeSet& fast, const TreeSet& slow);

struct HybridPlan {
  schedule::Schedule fast;
  schedule::Schedule slow;
  double slow_fraction = 0;  // of the data; the schedules share the buffer, fast first
  double predicted_us = 0;   // both together; transfers without latency
  double fast_alone_us = 0;
};

// Trees over the links of `fast` and over those of `slow`, which have the same ranks. `switch_us` is measured: it grows
// with the number of devices. Throws invalid_argument when the ranks differ, a link has no bandwidth, or a topology is
// not connected.
HybridPlan hybrid(const Topology& fast, const Topology& slow, Collective collective, Rank root, double bytes,
                  double switch_us);

// The optimal rate of trees over a topology's links, in GB/s of the whole buffer (allgather, reducescatter: of one
// rank's block).
double packed_gbytes_per_s(const Topology& topology, Collective collective, Rank root);

}  // namespace sccl::treegen
