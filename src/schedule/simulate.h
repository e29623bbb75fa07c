// A discrete-event simulation of a schedule on its topology: when does each slice pass each link?
//
// The model. A chunk is cut into slices. A slice leaves a rank when the value it carries is complete there, when the
// messages before it on the same connection (source, destination) have left, and when the receiver has a free slot. On
// each link of its way it takes the lane that is free first, in the order of asking, for bytes / (rate of a lane); on
// a shared set likewise. Links of one way overlap (cut-through): the head of a slice moves on after the link's
// latency. At the receiver it waits until the value it replaces has been read, is reduced at the rank's rate, and
// frees its slot. Latency delays a slice but does not occupy a link, as in SCCL's S alpha + (R / C) L beta.
//
// Times are whole picoseconds and ties are broken by position, so results are the same on every machine. Cost: O(n log
// t) for n = slices x links of their ways and t different times of events under way; memory O(sends + slices).
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.h"

namespace sccl::schedule {

// How a step is told from the next: by nothing but the data, as programs run, or by a barrier, as in SCCL's model.
enum class Progress : std::uint8_t { dataflow, stepwise };

enum class Detail : std::uint8_t { totals, transfers };

struct SimulationOptions {
  double bytes = 0;                // L of schedule/cost.h
  double slice_bytes = 0;          // 0: a chunk is one slice
  int slots = 0;                   // of a connection; 0: as many as are needed
  double reduce_gbytes_per_s = 0;  // of one rank; 0: reducing takes no time
  Progress progress = Progress::dataflow;
  Detail detail = Detail::transfers;
};

// One slice on one lane of one link.
struct Transfer {
  EdgeId edge = 0;
  int lane = 0;
  int send = 0;  // position in Schedule::sends
  int slice = 0;
  double begin_us = 0;
  double end_us = 0;
};

struct EdgeUse {
  EdgeId edge = 0;
  double bytes = 0;
  double busy_us = 0;  // summed over lanes
  double begin_us = 0;
  double end_us = 0;
};

struct Simulation {
  double time_us = 0;
  std::int64_t slices = 0;          // that were sent
  std::vector<EdgeUse> edges;       // those used, ascending
  std::vector<Transfer> transfers;  // in order of their beginning on each link; empty with Detail::totals
};

// The schedule must have passed verify(). Throws invalid_argument when a link that is used has no bandwidth, an option
// is negative or not finite, or the slices are more than memory should hold.
Simulation simulate(const Schedule& schedule, const SimulationOptions& options);

}  // namespace sccl::schedule
