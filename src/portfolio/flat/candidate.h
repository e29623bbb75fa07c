// One schedule that could serve a collective.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "base/os/in_parallel.h"
#include "compose/cost/cost.h"
#include "compose/proof/verify.h"
#include "portfolio/flat/flat_form.h"

namespace sccl::portfolio {

enum class Origin : std::uint8_t { planner, trees, synthesis, levels };

struct Candidate {
  std::string name;  // "ring", "trees", "trees/32" (frames), "synth 6/3/7" (chunks per rank, steps, rounds)
  Origin origin = Origin::planner;
  FlatForm schedule;  // verified, or the flat form of a verified composite
  int frames = 1;     // the number of frames into which the schedule cuts a transfer

  // Only for flat forms of composites: programs are made of the composite, the flat form is for predictions.
  std::shared_ptr<const compose::Cost> cost = nullptr;
  std::optional<compose::Verified> composite = std::nullopt;
};

// Clusters of more ranks use only composites, which are chosen by their closed form (composites/composites.h).
inline constexpr int kMostFlatRanks = 32;

// Of which one rank has, or gets, all data, and every host passes all of it.
inline bool passes_whole(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce;
}

// On which one rank plans. Others of its host plan at the same time.
inline unsigned planning_threads() {
  constexpr unsigned kMost = 2;
  return std::min(kMost, cores_of_thread());
}

}  // namespace sccl::portfolio
