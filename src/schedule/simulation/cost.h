// A schedule's cost in the (alpha, beta) model, in closed form.
#pragma once

#include <vector>

#include "schedule/schedule.h"

namespace sccl::schedule {

// SCCL 2 and 3.6: S * alpha + (R / C) * L * beta, with the same alpha and beta on every lane; L is the size of the
// buffer, which is cut into C chunks.
struct SteppedCost {
  int steps = 0;
  int rounds = 0;
  int chunks_per_rank = 1;

  double rounds_per_chunk() const { return static_cast<double>(rounds) / chunks_per_rank; }
  double time_us(double alpha_us, double beta_us_per_byte, double bytes) const;
};

SteppedCost stepped_cost(const Schedule& schedule);

// Time as a linear function of the buffer's bytes (L of the paper): one rank's input for allgather, gather, alltoall,
// allreduce, reduce and reducescatter; the root's input for broadcast and scatter.
struct LinearCost {
  double fixed_us = 0;
  double us_per_byte = 0;
  double time_us(double bytes) const { return fixed_us + us_per_byte * bytes; }
};

// The generalisation to links with different figures. A step lasts as long as its longest latency and its slowest link
// or shared set; a lane carries whole chunks one after another. A pipelined schedule runs in `slices` slices: with D
// steps it takes D - 1 + slices beats. Each beat lasts as long as the slowest link needs for one slice of its whole
// load (NCCL's (6 + m) alpha + (6 + m) / (6 m) L beta for m = slices on a DGX-1). Throws invalid_argument that names a
// used link without bandwidth.
LinearCost linear_cost(const Schedule& schedule, int slices = 1);

// How long the busiest link, or set of links that share their bandwidth, is busy for a byte of L: no simulation of the
// schedule takes less time. O(sends + ranks^2).
double busiest_us_per_byte(const Schedule& schedule);

// Time of one byte on one lane of a link. Throws invalid_argument when the link's bandwidth is unknown.
double lane_us_per_byte(const EdgeInfo& edge, const topology::Topology& topology);

// What a device protocol adds to a link's time: flag bytes beside the payload, and in every step the time until the
// receiver may trust a message (a fence and a flag after the payload; zero where flags travel with the payload).
struct ProtocolCost {
  double carried_per_byte = 1;
  double step_us = 0;
  // `steps` messages follow one another; the busiest link carries payload for busiest_us.
  double time_us(int steps, double busiest_us) const { return step_us * steps + carried_per_byte * busiest_us; }
};
inline constexpr ProtocolCost kSlotCost{1, 1.5};  // the step: a fence of system scope and one more trip over the link
inline constexpr ProtocolCost kWordCost{2, 0};
inline constexpr ProtocolCost kLineCost{128.0 / 120, 0};

// By chunk: its size as a fraction of L.
std::vector<double> chunk_fractions(const Schedule& schedule);

// L in bytes for a call of so many bytes, or of `count` elements, counted as the C call counts them.
double buffer_bytes(Collective collective, int ranks, double bytes);
double buffer_bytes(const Schedule& schedule, double count, double element_bytes);

}  // namespace sccl::schedule
