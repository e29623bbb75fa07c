// How long the busiest links wait for chunks of AllGather, ReduceScatter and AllReduce.
//
// Frames begin one after the other. While the first of them have not come to their last steps, and when the last ones
// have left their first steps, links that are busy in other steps wait. So the wait is longest without frames, and
// fades the more steps there are from the first frame to the last one for each step of a chunk. How long it is without
// frames: of an AllReduce other links may be the busiest while sums pass than while copies pass, which the loads tell;
// apart from that it is fitted to simulations of 64 and 128 ranks: a part of the busiest link's time where hosts and
// network are about as busy. Rings wait less, as each link has its next chunks in line.
#pragma once

#include "compose/cost/cost.h"

namespace sccl::compose {

// Of an AllReduce: what the busiest link of a host passes of sums alone, with half of what passes NICs, and of copies.
struct Apart {
  double sums_us_per_byte = 0;  // of L
  double copies_us_per_byte = 0;
};

// Per byte of L, of AllGather, ReduceScatter and AllReduce; `cost` knows the busiest links.
double waiting_us_per_byte(const Composite& composite, const Routes& routes, const Cost& cost, const Apart& apart);

}  // namespace sccl::compose
