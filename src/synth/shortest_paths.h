// A schedule without a search: every chunk follows shortest paths, chosen by load.
//
// The schedule has the fewest possible steps; its rounds follow from the loads. It is used where it is good enough (one
// hop to every rank), while a search is running, and where no search succeeds.
#pragma once

#include <vector>

#include "synth/problem.h"

namespace sccl::synth {

// One chunk over one hop; `chunk` is its number in the schedule.
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
