// The order in which composites on many ranks serve a call: by the closed form, and by simulations; where all hosts do
// alike of one of them, else of all ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "portfolio/composites/composites.h"
#include "schedule/simulation/simulate.h"

namespace sccl::portfolio {

struct RankedComposite {
  std::size_t candidate = 0;
  double slice_bytes = 0;  // for which the times are; a program's own slices may differ
  double closed_us = 0;    // by the closed form
  double time_us = 0;      // foreseen
  bool simulated = false;
};

// Slices that the closed form prefers; or, of what comes first, shorter ones where simulations find them better. That
// changes no order, and programs find their own slices: it tells people how fast the first one can be.
enum class Slices : std::uint8_t { of_closed_form, best_of_first };

// Fastest first. `options`: the bytes, the most of a slice, and the slots of connections. Only the most promising
// composites are simulated, and what comes first: one or two tenths of a second in all. One that is not is taken to be
// as far above its closed form as the fastest of those. A pure function of its arguments, so that all ranks choose
// alike.
std::vector<RankedComposite> ranked(const std::vector<CompositeCandidate>& candidates,
                                    const schedule::SimulationOptions& options, Slices slices = Slices::of_closed_form);

}  // namespace sccl::portfolio
