// What a schedule costs in the (alpha, beta) model, in closed form.
#pragma once

#include <vector>

#include "schedule/schedule.h"

namespace sccl::schedule {

// SCCL 2 and 3.6: S * alpha + (R / C) * L * beta, the same alpha and beta on every lane; L is the size of the buffer
// that is cut into C chunks.
struct SteppedCost {
  int steps = 0;
  int rounds = 0;
  int chunks_per_rank = 1;

  double rounds_per_chunk() const { return static_cast<double>(rounds) / chunks_per_rank; }
  double time_us(double alpha_us, double beta_us_per_byte, double bytes) const;
};

SteppedCost stepped_cost(const Schedule& schedule);

// Time as a linear function of the buffer's bytes, the L of the paper: what one rank puts in for allgather, gather,
// alltoall, allreduce, reduce and reducescatter, what the root puts in for broadcast and scatter.
struct LinearCost {
  double fixed_us = 0;
  double us_per_byte = 0;
  double time_us(double bytes) const { return fixed_us + us_per_byte * bytes; }
};

// The generalisation to links that differ: a step lasts as long as its longest latency and its slowest link or shared
// set, where a lane carries whole chunks one after another. A pipelined schedule runs in `slices` slices: D steps deep
// it takes D - 1 + slices beats, each as long as its slowest link needs for one slice of all it carries (NCCL's
// (6 + m) alpha + (6 + m) / (6 m) L beta for m = slices on a DGX-1). Throws invalid_argument naming the link that is
// used and has no bandwidth.
LinearCost linear_cost(const Schedule& schedule, int slices = 1);

// What one lane of a link needs for a byte. Throws invalid_argument when the link's bandwidth is unknown.
double lane_us_per_byte(const EdgeInfo& edge, const topology::Topology& topology);

// What a protocol of devices adds to a link's time: bytes of flags among those of payload, and in every step the time
// in which a message comes to be believed (a fence and a flag behind the payload; nothing where flags travel with it).
struct ProtocolCost {
  double carried_per_byte = 1;
  double step_us = 0;
  // `steps` messages one after another; the busiest link carries payload for busiest_us.
  double time_us(int steps, double busiest_us) const { return step_us * steps + carried_per_byte * busiest_us; }
};
inline constexpr ProtocolCost kSlotCost{1, 1.5};  // as a fence of the system's scope and another round over the link
inline constexpr ProtocolCost kWordCost{2, 0};
inline constexpr ProtocolCost kLineCost{128.0 / 120, 0};

// By chunk, its size as a fraction of the L above.
std::vector<double> chunk_fractions(const Schedule& schedule);

// L in bytes for a call of `count` elements, counted as the C call counts them.
double buffer_bytes(const Schedule& schedule, double count, double element_bytes);

}  // namespace sccl::schedule
