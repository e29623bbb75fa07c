// All that the planners know for one collective on given links, and what each would take for a number of bytes.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compose/cost.h"
#include "schedule/schedule.h"
#include "schedule/simulate.h"

namespace sccl::portfolio {

enum class Origin : std::uint8_t { planner, trees, synthesis, levels };

struct Candidate {
  std::string name;  // "ring", "trees", "trees/32" (frames), "synth 6/3/7" (chunks per rank, steps, rounds)
  Origin origin = Origin::planner;
  schedule::Schedule schedule;  // verified
  int frames = 1;               // that it cuts a transfer into

  std::shared_ptr<const compose::Cost> cost = nullptr;  // of flat forms of composites
};

// Clusters of more ranks are served by composites alone, which are chosen by their closed form (composites.h).
inline constexpr int kMostFlatRanks = 32;
bool by_levels_alone(const topology::Topology& topology);

// Names of kinds of candidates besides planners: "trees", "synth", ...
std::span<const std::string_view> kinds();

// Whether SCCL_ALGO or --algo means a candidate: by its name, by what stands in it before a plus sign, or by the kind
// that stands before its figures.
bool answers_to(std::string_view name, std::string_view algorithm);
inline bool answers_to(const Candidate& candidate, std::string_view algorithm) {
  return answers_to(candidate.name, algorithm);
}

// A pure function of its arguments: searches are bounded by work, not by time, so that all ranks get the same. Never
// empty; throws invalid_argument when some rank cannot reach another one.
std::vector<Candidate> candidates(const topology::Topology& topology, Collective collective, Rank root);

struct Prediction {
  std::size_t candidate = 0;  // its index
  double time_us = 0;
};

// How the executor moves data: slices of at most `slice_bytes`, `slots` of them under way on a connection.
struct Pipeline {
  double slice_bytes = 128 * 1024;
  int slots = 4;
};

// Simulated, fastest first; composites whose simulation takes too long by their closed form. Candidates on links
// without figures are left out, and frames of a few bytes. `count` as the C call counts elements.
std::vector<Prediction> predict(const std::vector<Candidate>& candidates, std::size_t count, std::size_t element_bytes,
                                const Pipeline& pipeline);

// The same with `options.bytes` for the L of schedule/cost.h.
std::vector<Prediction> predict(const std::vector<Candidate>& candidates, const schedule::SimulationOptions& options);

}  // namespace sccl::portfolio
