// The predicted time of each of several schedules, for a number of bytes.
#pragma once

#include <cstddef>
#include <vector>

#include "portfolio/flat/candidate.h"
#include "schedule/simulation/simulate.h"

namespace sccl::portfolio {

struct Prediction {
  std::size_t candidate = 0;  // index of the candidate
  double time_us = 0;
  double slice_bytes = 0;  // of the data's pieces on their way
};

// How the executor moves data: slices of at most `slice_bytes`, `slots` of them in flight on a connection.
struct Pipeline {
  double slice_bytes = 128 * 1024;
  int slots = schedule::kSlots;
  int short_slots = schedule::kShortSlots;    // for slices of at most schedule::kLaneBytes
  int network_slots = schedule::kShortSlots;  // the same between hosts

  // How simulations move so many bytes.
  schedule::SimulationOptions simulated(double bytes) const {
    return {.bytes = bytes,
            .slice_bytes = slice_bytes,
            .slots = slots,
            .short_slots = short_slots,
            .network_slots = network_slots,
            .lane_bytes = schedule::kLaneBytes,
            .detail = schedule::Detail::totals};
  }
};

// Simulated times, fastest first. Composites use their closed form where a simulation would take too long, and where it
// is so far above the fastest that a simulation would not change the choice; a simulation stops at the fastest time so
// far and guesses the rest. Where there are no composites, simulations are cut short in long calls alone. Composites
// may be cut into shorter slices. Candidates on links without figures, and frames of a few bytes, are left out. `count`
// counts elements as the C call does.
std::vector<Prediction> predict(const std::vector<Candidate>& candidates, std::size_t count, std::size_t element_bytes,
                                const Pipeline& pipeline);

// As above, with `options.bytes` for the L of schedule/simulation/cost.h.
std::vector<Prediction> predict(const std::vector<Candidate>& candidates, const schedule::SimulationOptions& options);

}  // namespace sccl::portfolio
