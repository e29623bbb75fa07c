// A schedule at once: every chunk along shortest paths, spread over them by load.
//
// It takes as few steps as any schedule can, and no search; its rounds are what the loads come to. It is the answer
// where it is good enough (one hop to everyone), and what there is while, or where, no search gets anywhere.
#pragma once

#include <vector>

#include "synth/problem.h"

namespace sccl::synth {

// One chunk over one hop; `chunk` is the schedule's number of it.
struct TimedHop {
  schedule::ChunkId chunk = 0;
  int hop = 0;
  int step = 0;
};

struct Routed {
  std::vector<TimedHop> sends;
  int steps = 0;
  int rounds = 0;
};

// Every sink must be reachable. Time: chunks * hops.
Routed shortest_paths(const Problem& problem);

}  // namespace sccl::synth
