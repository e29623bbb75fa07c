// The time of a composite by a simulation of all its ranks.
#pragma once

#include <functional>

#include "schedule/simulation/simulate.h"

namespace sccl::portfolio {

struct SimulatedTime {
  double us = 0;
  bool stopped = false;  // at options.stop_after_us, and `us` is a guess of at least that
  double slices = 0;     // that arrived: what the simulations took
};

// Of the whole by simulations of a part and of a longer one, each of which stops at the time that it is given. What
// follows the shorter one is `further` times what the longer one has more, and takes as many times as long, but no less
// than `least_us`.
SimulatedTime of_two_parts(double further, double least_us, double stop_after_us,
                           const std::function<SimulatedTime(double)>& shorter,
                           const std::function<SimulatedTime(double)>& longer);

// Of long data a part is simulated.
class FlatSize {
 public:
  // So many sends, each of a chunk that is such a part of the buffer.
  FlatSize(double sends, double chunk_per_byte) : sends_(sends), chunk_per_byte_(chunk_per_byte) {}

  // Slices that are simulated: all, or of more than `most` about `of_parts`.
  double slices(const schedule::SimulationOptions& options, double most, double of_parts) const;

  // In chunks of few slices, and of twice as many: from one to the other the time grows as it does with further slices.
  // Where chunks have too few slices for that, all are simulated.
  SimulatedTime time(const schedule::Simulator& simulator, const schedule::SimulationOptions& options, double most,
                     double of_parts) const;

 private:
  double slices_of_chunk(const schedule::SimulationOptions& options) const;
  double slices_of_part(const schedule::SimulationOptions& options, double most, double of_parts) const;

  double sends_;
  double chunk_per_byte_;
};

}  // namespace sccl::portfolio
