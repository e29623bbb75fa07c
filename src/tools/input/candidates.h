// The schedules that could serve a call on a machine, with simulated times: the candidates of the portfolio, as the
// planning verbs show them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "portfolio/composites/composites.h"
#include "portfolio/portfolio.h"
#include "schedule/simulation/simulate.h"

namespace sccl::tools {

// How transfers are cut and buffered by this library's programs.
inline constexpr double kSliceBytes = portfolio::Pipeline{}.slice_bytes;
inline constexpr int kSlots = portfolio::Pipeline{}.slots;
inline constexpr int kShortSlots = portfolio::Pipeline{}.short_slots;

struct Call {
  Collective collective = Collective::allreduce;
  Rank root = 0;
  double bytes = 0;  // the L of schedule/simulation/cost.h
};

struct Candidate {
  std::string algorithm;
  std::shared_ptr<const compose::Cost> cost;  // only of composites
  portfolio::FlatForm schedule;
  double time_us = 0;
  double closed_form_us = 0;
  double slice_bytes = 0;
};

// For a cluster that only composites serve.
struct LevelsCandidate {
  portfolio::CompositeCandidate plan;
  double slice_bytes = 0;
  double time_us = 0;  // foreseen: simulated at one host where all do alike (portfolio/clusters/ranked.h)
  double closed_form_us = 0;
};

// Those that have schedules.
inline constexpr const char* kCollectiveNames =
    "allreduce, allgather, reducescatter, broadcast, reduce, alltoall, gather or scatter";

// Throws CLI::ValidationError when no plannable collective has the name.
Collective parse_collective_name(const std::string& name);

// Fastest first. Throws invalid_argument when there is none, or the links have no bandwidths.
std::vector<Candidate> candidates(const topology::Topology& machine, const Call& call,
                                  const schedule::SimulationOptions& options);

// The composites of a cluster that only composites serve, fastest first; empty for other machines. Throws
// invalid_argument when hosts cannot reach one another.
std::vector<LevelsCandidate> levels_candidates(const topology::Topology& machine, const Call& call, double slice_bytes);

// A schedule, and the slices in which it was foreseen to be fastest.
struct Planned {
  schedule::Schedule schedule;
  double slice_bytes = 0;
};

// Throws invalid_argument when no planner and no kind of schedules has the name, which takes no planning.
void check_algorithm_name(const std::string& algorithm);

// The fastest schedule of one planner or kind ("ring", "trees", "trees/32", "synth"). Throws invalid_argument when no
// candidate has the name, or when it has no schedule for the call.
Planned plan_by(const std::string& algorithm, const topology::Topology& machine, const Call& call,
                const schedule::SimulationOptions& options);

// Throws invalid_argument when no time could be predicted.
void require_predictions(const std::vector<portfolio::Prediction>& predictions, const topology::Topology& machine);

}  // namespace sccl::tools
